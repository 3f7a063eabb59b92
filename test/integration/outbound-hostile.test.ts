import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeHeaders, joinHeaders } from '../../src/guest/outbound/client.ts'
import {
  type GuestRequest,
  parseGuestRequest,
  parseGuestStreamRequest,
} from '../../src/guest/outbound/guest-request.ts'
import { ask, failureOf, open, serveHttp, serveRaw } from '../support/outbound.ts'
import { runs } from '../support/runs.ts'

const parse = (request: unknown): GuestRequest => parseGuestRequest(Buffer.from(JSON.stringify(request)))
const url = 'http://origin.test/'
const invalid = expect.objectContaining({ code: 'WASM_SERVE_OUTBOUND_REQUEST_INVALID' })
const unresolved = async () => Promise.reject(Object.assign(new Error(), { code: 'ENOTFOUND' }))

// The JSON of a request.

test.each<[string, object, object]>([
  ['a URL alone', { url }, { url, method: 'GET', headers: {} }],
  ['all of it', { url, method: 'PUT', headers: { A: 'b' } }, { url, method: 'PUT', headers: { A: 'b' } }],
  ['what is null', { url, method: null, headers: null }, { url, method: 'GET', headers: {} }],
  ['the other name', { url, header: { a: 'b' } }, { url, method: 'GET', headers: { a: 'b' } }],
  ['keys that it does not know', { url, x: 1 }, { url, method: 'GET', headers: {} }],
])('%s is read', (_, request, expected) => {
  expect(parse(request)).toEqual(expected)
})

test.each<[string, Uint8Array | string]>([
  ['nothing', ''],
  ['no JSON', '{"url":'],
  ['bytes that are no UTF-8', Buffer.from('{"url":"http://\xff/"}', 'latin1')],
  ['null', 'null'],
  ['a list', '[]'],
  ['text', '"http://a/"'],
  ['no URL', '{}'],
  ['a URL that is no text', '{"url":1}'],
  ['a method that is no text', `{"url":"${url}","method":1}`],
  ['headers that are no object', `{"url":"${url}","headers":[]}`],
  ['a header that is no text', `{"url":"${url}","headers":{"a":1}}`],
  ['a header with several values', `{"url":"${url}","headers":{"a":["b"]}}`],
  ['more than 64 KiB', JSON.stringify({ url, headers: { a: 'b'.repeat(65_536) } })],
  ['depth', '['.repeat(60_000)],
])('%s is refused', (_, json) => {
  expect(() => parseGuestRequest(Buffer.from(json))).toThrowError(invalid)
})

test('a request that is streamed may have a length, and leave redirects to the guest', () => {
  const parse = (request: object) => parseGuestStreamRequest(Buffer.from(JSON.stringify({ url, ...request })))
  expect(parse({})).toMatchObject({ url, method: 'GET', length: undefined, followsRedirects: true })
  expect(parse({ length: 5, redirect: 'manual' })).toMatchObject({ length: 5, followsRedirects: false })
  expect(parse({ length: null, redirect: 'follow' })).toMatchObject({
    length: undefined,
    followsRedirects: true,
  })
  for (const wrong of [
    { length: -1 },
    { length: 0.5 },
    { length: '1' },
    { length: 1e300 },
    { redirect: 'error' },
  ])
    expect(() => parse(wrong)).toThrowError(invalid)
})

test('a key of every object is a header like any other', async () => {
  const origin = await serveHttp((request, response) => {
    const at = request.rawHeaders.indexOf('__proto__')
    response.setHeader('__proto__', String(request.rawHeaders[at + 1])).end()
  })
  const json = `{"url":"${origin.url}","__proto__":{"method":"DELETE"},"headers":{"__proto__":"a","constructor":"b"}}`
  const { headers } = await open().fetch(parseGuestRequest(Buffer.from(json)), undefined, {
    timeoutMs: 5_000,
  })
  expect(Object.entries(headers)).toContainEqual(['__proto__', 'a'])
  expect(Buffer.from(encodeHeaders(headers)).toString()).toContain('"__proto__":"a"')
  expect(Object.keys(Object.prototype)).toEqual([])
})

test('headers are encoded by name in lower case, as JSON in UTF-8', () => {
  const headers = joinHeaders(['X-A', '1', 'x-b', 'é"', 'x-a', '2'])
  expect(Buffer.from(encodeHeaders(headers)).toString()).toBe('{"x-a":"1, 2","x-b":"é\\""}')
})

// What cannot be sent.

test.each<[string, Partial<GuestRequest>, string?]>([
  ['a path', { url: '/path' }],
  ['nothing for a URL', { url: '' }],
  ['a method with a space', { method: 'GET /x HTTP/1.1\r\n' }],
  ['a method of nothing', { method: '' }],
  ['CONNECT', { method: 'connect' }],
  ['TRACE', { method: 'TRACE' }],
  ['a GET with a body', {}, 'body'],
  ['a HEAD with a body', { method: 'head' }, 'body'],
  ['a header with a line break', { headers: { a: 'b\r\nHost: evil' } }],
  ['a header with a lone line feed', { headers: { a: 'b\nc' } }],
  ['a header with a NUL', { headers: { a: '\0' } }],
  ['a header beyond latin1', { headers: { a: '😄' } }],
  ['a name with a line break', { headers: { 'a\r\nb': 'c' } }],
  ['a name with a colon', { headers: { 'a:b': 'c' } }],
  ['a name of nothing', { headers: { '': 'c' } }],
  ['a name with a space', { headers: { 'transfer-encoding ': 'chunked' } }],
])('%s cannot be sent', async (_, request, body) => {
  const failure = await failureOf(
    ask(open(), request.url ?? url, { ...request, ...(body === undefined ? {} : { body }) }),
  )
  expect(failure).toEqual(invalid)
})

test.each([
  ['another scheme', 'ftp://origin.test/', 'only http and https'],
  ['a file', 'file:///etc/passwd', 'only http and https'],
  ['credentials', 'http://user:secret@origin.test/', 'Authorization'],
  ['port 0', 'http://origin.test:0/', 'port 0 is not valid'],
  ['another host', 'http://evil.test:81/a?secret', '--allow-host evil.test:81'],
  ['a host as credentials', 'http://origin.test@evil.test/', 'Authorization'],
  ['a host behind a backslash', 'http://evil.test\\@origin.test/', 'evil.test'],
])('%s is refused, with a reason and no secret', async (_, url, reason) => {
  const { code, message } = await failureOf(ask(open(), url))
  expect(code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  expect(message).toContain(reason)
  expect(message).not.toContain('secret')
})

test('whatever a guest asks for, the failure is one of ours', async () => {
  const outbound = open({ allowedHosts: ['*'], network: { resolve: unresolved } })
  const text = fc.string({ unit: 'binary' })
  const urls = fc.oneof(
    text,
    fc.webUrl(),
    text.map((rest) => `http://${rest}`),
    text.map((rest) => `https://origin.test/${rest}`),
  )
  const methods = fc.oneof(fc.constantFrom('GET', 'post', 'DELETE'), text)
  const requests = fc.record({
    url: urls,
    method: methods,
    headers: fc.dictionary(text, text, { maxKeys: 3 }),
  })
  await fc.assert(
    fc.asyncProperty(requests, fc.uint8Array(), async (request, body) => {
      const { code } = await failureOf(outbound.fetch(request, body, { timeoutMs: 1_000 }))
      expect(code).toMatch(/^WASM_SERVE_OUTBOUND_/)
    }),
    { numRuns: runs(60) },
  )
})

test('whatever bytes are given for a request, they are read or refused', () => {
  const requests = fc.record(
    { url: fc.anything(), method: fc.anything(), headers: fc.anything() },
    { requiredKeys: [] },
  )
  const json = fc.oneof(
    fc.uint8Array(),
    fc.json().map((text) => Buffer.from(text)),
    requests.map((request) => Buffer.from(JSON.stringify(request) ?? '')),
  )
  fc.assert(
    fc.property(json, (bytes) => {
      try {
        expect(parseGuestRequest(bytes)).toMatchObject({
          url: expect.any(String),
          method: expect.any(String),
        })
      } catch (error) {
        expect(error).toEqual(invalid)
      }
    }),
  )
})

// Every way to write an address.

/** Four bytes of a network that is not public. */
const forbidden = fc
  .tuple(
    fc.constantFrom<readonly number[]>(
      [127],
      [10],
      [0],
      [169, 254],
      [192, 168],
      [172, 16],
      [172, 31],
      [100, 64],
      [224],
      [255, 255, 255, 255],
    ),
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
  )
  .map(([network, rest]) => [...network, ...rest].slice(0, 4))

const octal = (value: number) => `0${value.toString(8)}`
const hex = (value: number) => `0x${value.toString(16)}`
const radixes = fc.constantFrom(String, octal, hex, (value: number) => hex(value).toUpperCase())

/** IPv4 as `inet_aton` reads it: one to four numbers in three radixes, of which the last takes all bytes left. */
const spelled = fc
  .tuple(forbidden, fc.integer({ min: 1, max: 4 }), fc.array(radixes, { minLength: 4, maxLength: 4 }))
  .map(([bytes, count, write]) => {
    const last = bytes.slice(count - 1).reduce((sum, byte) => sum * 256 + byte, 0)
    const numbers = [...bytes.slice(0, count - 1), last]
    return numbers.map((number, at) => (write[at] ?? String)(number)).join('.')
  })

const disguises: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => `${text}.`,
  (text) => text.replaceAll(/./g, (char) => `%${char.charCodeAt(0).toString(16)}`),
  (text) => text.replaceAll(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit))),
  (text) => text.replaceAll('.', '。'),
]

const words = (bytes: readonly number[]) => Buffer.from(bytes).toString('hex').replace(/^.{4}/, '$&:')

/** IPv6 that holds or leads to an IPv4 address. */
const embedded = fc
  .tuple(
    forbidden,
    fc.constantFrom<(bytes: readonly number[]) => string>(
      (bytes) => `::ffff:${bytes.join('.')}`,
      (bytes) => `0:0:0:0:0:FFFF:${words(bytes)}`,
      (bytes) => `::${bytes.join('.')}`,
      (bytes) => `64:ff9b::${words(bytes)}`,
      (bytes) => `::ffff:0:${words(bytes)}`,
      (bytes) => `2002:${words(bytes)}::1`,
    ),
  )
  .map(([bytes, write]) => `[${write(bytes)}]`)

const literals = fc.oneof(
  fc.tuple(spelled, fc.constantFrom(...disguises)).map(([text, disguise]) => disguise(text)),
  embedded,
  fc.constantFrom('[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[fe80::1]', '[fd00::1]', '[ff02::1]'),
)

test('no spelling of an address that is not public is reached under a wildcard', async () => {
  const origin = await serveRaw((socket) => socket.destroy())
  const outbound = open({ allowedHosts: ['*', '*.*', 'http://*'], network: { resolve: unresolved } })
  await fc.assert(
    fc.asyncProperty(literals, async (host) => {
      const { code, message } = await failureOf(ask(outbound, `http://${host}:${origin.port}/`))
      expect(code, message).toBe('WASM_SERVE_OUTBOUND_REFUSED')
    }),
    { numRuns: runs(200) },
  )
  expect(origin.accepted).toBe(0)
})

test('nor is one that a name resolves to', async () => {
  const addresses = fc.oneof(
    forbidden.map((bytes) => bytes.join('.')),
    embedded.map((host) => host.slice(1, -1)),
  )
  await fc.assert(
    fc.asyncProperty(addresses, async (address) => {
      const outbound = open({ allowedHosts: ['*.test'], network: { resolve: async () => [address] } })
      const { code } = await failureOf(ask(outbound, 'http://name.test/'))
      expect(code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
      await outbound.close()
    }),
    { numRuns: 200 },
  )
})
