import { envelopeTarget, JSON_TOKENS } from '../envelope.ts'

const FULL = {
  status: 201,
  headers: { 'content-type': 'text/plain', 'Set-Cookie': ['a=1', 'b=2'], 'x-odd': 'h\u00e9' },
  body: 'h\u00e9llo\n\u{1f600}',
}

/** The answers of guests of the contract `http`. */
export const target = envelopeTarget('http-envelope', {
  contract: 'http',
  code: 'WASM_SERVE_CONTRACT_BROKEN',
  seeds: [
    ...[
      '',
      'null',
      '[]',
      '{',
      '{"body":[1.10, {"a":{}}] }',
      '{"bodyBase64":"aGk="}',
      '{"body":"a","body":"b"}',
    ],
    ...[{}, FULL, { ...FULL, body: { a: [1, true, null] } }, { status: 204 }, { status: 304, body: 'a' }],
    { headers: { 'content-length': '1' } },
    { headers: { etag: 'a', ETag: 'b' } },
  ],
  read({ status = 200, body, bodyBase64 }) {
    if (typeof bodyBase64 === 'string') return { status, body: Buffer.from(bodyBase64, 'base64') }
    return { status, body: typeof body === 'string' ? Buffer.from(body) : undefined }
  },
  tokens: [
    '"status":',
    '"headers":',
    '"body":',
    '"bodyBase64":',
    '"YWI="',
    '"content-length":',
    ...JSON_TOKENS,
  ],
})
