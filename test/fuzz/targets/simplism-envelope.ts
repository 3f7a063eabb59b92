import { envelopeTarget, JSON_TOKENS } from '../envelope.ts'

const FULL = { body: 'h\u00e9llo', header: { 'Content-Type': ['text/html'], 'X-A': 'b' }, code: 201 }

/** The answers of guests of the contract `simplism`. */
export const target = envelopeTarget('simplism-envelope', {
  contract: 'simplism',
  code: 'WASM_SERVE_SIMPLISM_BROKEN',
  seeds: [
    ...['', 'null', '[]', '{', '{"body":"\\u00e9"}', '{"Body":"a","CODE":202,"header":null}'],
    ...[
      {},
      FULL,
      { ...FULL, header: { 'X-A': null, Connection: ['close'], 'a b': ['c'], 'X-S': ['a\r\nb: c'] } },
    ],
  ],
  read(fields) {
    const present = Object.entries(fields).filter(([, value]) => value !== null)
    const { body = '', code = 200 } = Object.fromEntries(
      present.map(([name, value]) => [name.toLowerCase(), value]),
    )
    return { status: code, body: Buffer.from(String(body)) }
  },
  tokens: ['"code":', '"header":', '"body":', '"Body":', '"Content-Type":', ...JSON_TOKENS],
})
