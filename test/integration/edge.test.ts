import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import type { Contract } from '../../src/contract/contract.ts'
import { openRaw } from '../../src/contract/direct.ts'
import { openHttp } from '../../src/contract/http.ts'
import { loadPackage } from '../../src/platform/optional-package.ts'
import { run } from '../support/cli.ts'
import { answerOf, inputOf } from '../support/contract.ts'
import { guest } from '../support/guest.ts'
import { listen, serve } from '../support/serve.ts'

const KEY = 'first-key-0123456789'
const POST = { method: 'POST', url: '/', body: 'hi' } as const
const cors = { origin: ['https://a.example', 'https://b.example'], methods: ['POST'], credentials: true }
const PREFLIGHT = { origin: 'https://b.example', 'access-control-request-method': 'POST' }

test('an API key that is missing and one that is wrong are told apart, without a word of the right one', async () => {
  const app = await serve({ plugin: guest('echo') }, { apiKeys: [KEY] })
  const missing = (await app.inject(POST)).json()
  const wrong = (await app.inject({ ...POST, headers: { 'x-api-key': 'wrong' } })).json()
  expect([missing.code, wrong.code]).toEqual(Array(2).fill('WASM_SERVE_API_KEY_REFUSED'))
  expect([missing.detail, wrong.detail]).toEqual([
    expect.stringContaining('needs an API key'),
    expect.stringContaining('is not valid here'),
  ])
  const other = (await app.inject({ ...POST, url: '/other/', headers: { 'x-api-key': KEY } })).json()
  expect(other.detail).toContain('with the / at its end')
})

test('a preflight request is answered without a key, before the route says 405', async () => {
  const { url } = await listen({ plugin: guest('echo') }, { cors, apiKeys: [KEY] })
  for (const path of ['/', '/nowhere']) {
    const answer = await fetch(url + path, { method: 'OPTIONS', headers: PREFLIGHT })
    expect(answer.status).toBe(204)
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://b.example')
    expect(answer.headers.get('access-control-allow-methods')).toBe('POST')
  }
})

test('answers, of failures too, may be read by pages of these origins and no others', async () => {
  const app = await serve({ plugin: guest('echo') }, { cors, apiKeys: [KEY] })
  const ask = (origin: string, key: string) => app.inject({ ...POST, headers: { origin, 'x-api-key': key } })
  const name = 'access-control-allow-origin'
  const known = await ask('https://a.example', KEY)
  expect([known.statusCode, known.headers[name]]).toEqual([200, 'https://a.example'])
  expect(known.headers).toMatchObject({ vary: 'Origin', 'access-control-allow-credentials': 'true' })
  const refused = await ask('https://a.example', 'none')
  expect([refused.statusCode, refused.headers[name]]).toEqual([401, 'https://a.example'])
  expect((await ask('https://c.example', KEY)).headers[name]).toBeUndefined()
})

test.each([
  ['all', ['*']],
  ['all among others', ['https://a.example', '*']],
  ['all, with spaces around', [' * ']],
  ['pages of no origin, such as those in a sandbox of any page', ['null']],
  ['pages of no origin, in other letters', ['https://a.example', 'NULL']],
  ['a pattern', ['https://*']],
  ['a pattern of hosts', ['https://*.example']],
  ['a pattern in a list', ['https://a.example', '*.example']],
])('cookies of %s are refused at the start', async (_, origin) => {
  await expect(
    serve({ plugin: guest('echo') }, { cors: { origin, credentials: true } }),
  ).rejects.toMatchObject({
    code: 'WASM_SERVE_OPTIONS_INVALID',
    message: expect.stringContaining('cors.origin['),
  })
})

test.each<[string, unknown]>([
  ['true', true],
  ['a lone *', '*'],
  ['an expression', /./],
  ['a list with an expression', [/./]],
  ['a list with true', [true]],
  ['a list in a list', [['*']]],
  ['a function', () => true],
  ['nothing', []],
])('an origin that is %s is no option, with cookies or without', async (_, origin) => {
  for (const credentials of [true, false]) {
    const options = { cors: { origin, credentials } } as never
    await expect(serve({ plugin: guest('echo') }, options)).rejects.toMatchObject({
      code: 'WASM_SERVE_OPTIONS_INVALID',
    })
  }
})

test('a config file that gives cookies to all is a mistake, with its line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cors-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'wasm-serve.yaml')
  const lines = [
    'plugins:',
    `  echo: { source: ${guest('echo')} }`,
    'cors:',
    '  credentials: true',
    '  origin:',
  ]
  writeFileSync(path, [...lines, '    - https://a.example', "    - '*'", ''].join('\n'))
  for (const argv of [
    ['-c', path, '0'],
    ['check', '-c', path],
  ]) {
    const { code, stderr } = await run(argv)
    expect([code, stderr]).toEqual([2, expect.stringContaining(`${path}:7:7`)])
  }
})

test('without credentials all origins may be let in', async () => {
  for (const credentials of [undefined, false]) {
    const options = { cors: { origin: ['*'], ...(credentials === false && { credentials }) } }
    const app = await serve({ plugin: guest('echo') }, options)
    const { headers } = await app.inject({ ...POST, headers: { origin: 'https://c.example' } })
    expect(headers['access-control-allow-origin']).toBe('*')
    expect(headers).not.toHaveProperty('access-control-allow-credentials')
  }
})

test('OPTIONS that is no preflight request goes to its route, or is told 405 or 404', async () => {
  const post = await serve({ plugin: guest('echo') }, { cors })
  const refused = await post.inject({ method: 'OPTIONS', url: '/' })
  expect([refused.statusCode, refused.headers.allow]).toEqual([405, 'POST'])
  const unknown = await post.inject({ method: 'OPTIONS', url: '/nowhere' })
  expect(unknown.json()).toMatchObject({ status: 404, code: 'WASM_SERVE_ROUTE_NOT_FOUND' })
  const all = await serve({ plugin: guest('echo'), method: '*' }, { cors })
  expect((await all.inject({ method: 'OPTIONS', url: '/', body: 'hi' })).body).toBe('hi')
})

test('too many requests of an address are told 429 and when to come again, wrong keys and URLs among them', async () => {
  const rateLimit = { max: 2, timeWindowMs: 60_000 }
  const app = await serve({ plugin: guest('echo') }, { cors, rateLimit, apiKeys: [KEY] })
  const headers = { 'x-api-key': KEY }
  expect((await app.inject({ method: 'OPTIONS', url: '/', headers: PREFLIGHT })).statusCode).toBe(204)
  expect((await app.inject({ ...POST, url: '/nowhere', headers })).statusCode).toBe(404)
  expect((await app.inject(POST)).statusCode).toBe(401)
  const reply = await app.inject({ ...POST, headers })
  expect(reply.json()).toMatchObject({ status: 429, code: 'WASM_SERVE_RATE_LIMITED' })
  expect(reply.headers).toMatchObject({
    'retry-after': '60',
    'content-type': 'application/problem+json',
    'x-request-id': expect.any(String),
  })
  expect((await app.inject({ ...POST, headers, remoteAddress: '10.0.0.1' })).statusCode).toBe(200)
})

test.each([
  ['text', Buffer.from('hello '.repeat(1_000))],
  ['many bytes', Buffer.alloc(700_000, Buffer.of(0xff, 0, 1))],
])('%s of a guest is compressed for those who accept it', async (_, body) => {
  const app = await serve({ plugin: guest('echo') }, { compress: {} })
  const ask = (encoding: string) => app.inject({ ...POST, body, headers: { 'accept-encoding': encoding } })
  const gzip = await ask('gzip')
  expect(gzip.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' })
  expect(gunzipSync(gzip.rawPayload).equals(body)).toBe(true)
  expect(brotliDecompressSync((await ask('br')).rawPayload).equals(body)).toBe(true)
  expect((await app.inject({ ...POST, body })).rawPayload.equals(body)).toBe(true)
})

test('what is small is not compressed, and a request is left as it is', async () => {
  const app = await serve(
    { plugin: guest('echo') },
    { compress: { thresholdBytes: 10, encodings: ['gzip'] } },
  )
  const headers = { 'accept-encoding': 'br, gzip', 'content-encoding': 'gzip' }
  const small = await app.inject({ ...POST, headers })
  expect([small.headers['content-encoding'], small.body]).toEqual([undefined, 'hi'])
  const large = await app.inject({ ...POST, body: 'ten bytes and more', headers })
  expect(large.headers['content-encoding']).toBe('gzip')
  expect(String(gunzipSync(large.rawPayload))).toBe('ten bytes and more')
})

test('a package that is not installed is named, with the line that installs it', async () => {
  const load = () => import('wasm-serve-no-such-package' as string)
  await expect(loadPackage('cors', 'wasm-serve-no-such-package', load)).rejects.toMatchObject({
    code: 'WASM_SERVE_PACKAGE_MISSING',
    message: expect.stringContaining('npm install wasm-serve-no-such-package'),
  })
  await expect(loadPackage('otel', 'wasm-serve-no-such-package', load, 'a b')).rejects.toThrow(
    'npm install a b',
  )
  const broken = () => Promise.reject(Object.assign(new Error('broken'), { code: 'ERR_DLOPEN_FAILED' }))
  await expect(loadPackage('cors', '@fastify/cors', broken)).rejects.toThrow('broken')
})

test('answers have an ETag, and who has the same already is told 304 by GET and HEAD only', async () => {
  const app = await serve({ plugin: guest('bytes'), method: ['GET', 'POST'] }, { etag: true })
  const first = await app.inject('/')
  const tag = String(first.headers.etag)
  expect(tag).toMatch(/^"[^"]+"$/)
  const ask = (method: 'GET' | 'HEAD' | 'POST', wanted: string) =>
    app.inject({ method, url: '/', headers: { 'if-none-match': wanted } })
  for (const wanted of [tag, `W/${tag}`, `"x", ${tag}`, '*']) {
    const same = await ask('GET', wanted)
    expect([same.statusCode, same.body, same.headers.etag]).toEqual([304, '', tag])
  }
  expect((await ask('HEAD', tag)).statusCode).toBe(304)
  expect((await ask('POST', tag)).statusCode).toBe(200)
  expect((await ask('GET', '"x"')).rawPayload.equals(first.rawPayload)).toBe(true)
})

test('where answers are compressed the ETag is a weak one, and the 304 stays', async () => {
  const app = await serve(
    { plugin: guest('echo'), method: '*' },
    { etag: true, compress: { thresholdBytes: 1 } },
  )
  const headers = { 'accept-encoding': 'gzip' }
  const { etag } = (await app.inject({ url: '/', headers })).headers
  expect(etag).toMatch(/^W\//)
  const same = { method: 'GET', url: '/', headers: { ...headers, 'if-none-match': '*' } } as const
  expect((await app.inject(same)).statusCode).toBe(304)
})

test('no failure has an ETag, nor an answer to another method, and a tag of the guest stays', async () => {
  const headers = { 'if-none-match': '*' }
  const bytes = await serve({ plugin: guest('bytes'), method: '*' }, { etag: true })
  for (const method of ['POST', 'PUT', 'DELETE'] as const) {
    const answer = await bytes.inject({ method, url: '/', headers })
    expect([answer.statusCode, answer.headers.etag]).toEqual([200, undefined])
  }
  const failing = await serve({ plugin: guest('trap'), method: ['GET'] }, { etag: true, apiKeys: [KEY] })
  for (const [url, key, method, status] of [
    ['/', 'none', 'GET', 401],
    ['/', KEY, 'GET', 500],
    ['/', KEY, 'POST', 405],
    ['/nowhere', KEY, 'GET', 404],
  ] as const) {
    const answer = await failing.inject({ method, url, headers: { ...headers, 'x-api-key': key } })
    expect([answer.statusCode, answer.headers.etag]).toEqual([status, undefined])
  }
  const own = answerOf({ ...openRaw({}), answer: (_, reply) => reply.header('etag', '"a,b"').send('x') })
  const tagged = await serve({ ...own, method: 'GET' }, { etag: true })
  expect((await tagged.inject('/')).headers.etag).toBe('"a,b"')
  const same = { url: '/', headers: { 'if-none-match': '"c", W/"a,b"' } }
  expect((await tagged.inject(same)).statusCode).toBe(304)
})

test.each([
  [{}, 'accept-encoding'],
  [{ vary: 'cookie' }, 'cookie, accept-encoding'],
  [{ vary: 'Accept-Encoding, cookie' }, 'Accept-Encoding, cookie'],
  [{ vary: '*' }, '*'],
])('with compression an answer with %j has Vary: %s, compressed or not', async (headers, vary) => {
  const answer = answerOf({ ...openRaw({}), answer: (_, reply) => reply.headers(headers).send('text') })
  const app = await serve(answer, { compress: {} })
  expect((await app.inject(POST)).headers.vary).toBe(vary)
})

test.each([
  ['a strong tag becomes a weak one', 200, { etag: '"a"', 'content-type': 'text/x' }, 'W/"a"'],
  ['so does that of a 304', 304, { etag: '"a"' }, 'W/"a"'],
  ['a weak tag stays', 200, { etag: 'W/"a"', 'content-type': 'text/x' }, 'W/"a"'],
  ['that of an image stays', 200, { etag: '"a"', 'content-type': 'image/gif' }, '"a"'],
  [
    'that of an encoding stays',
    200,
    { etag: '"a"', 'content-type': 'text/x', 'content-encoding': 'x' },
    '"a"',
  ],
])('with compression a tag is for all encodings: %s', async (_, status, headers, etag) => {
  const answer: Contract['answer'] = (_output, reply) =>
    reply
      .code(status)
      .headers(headers)
      .send(status === 304 ? undefined : 'text')
  const app = await serve(answerOf({ ...openRaw({}), answer }), { compress: { thresholdBytes: 1 } })
  for (const encoding of ['gzip', 'identity']) {
    const { headers } = await app.inject({ ...POST, headers: { 'accept-encoding': encoding } })
    expect(headers.etag).toBe(etag)
  }
})

test('what is not compressed for anybody has no Vary', async () => {
  const app = await serve(
    { plugin: guest('echo'), contentType: 'image/gif' },
    { compress: { thresholdBytes: 0 } },
  )
  const { headers } = await app.inject({ ...POST, headers: { 'accept-encoding': 'gzip' } })
  expect([headers['content-encoding'], headers.vary]).toEqual([undefined, undefined])
})

test('of a proxy that is trusted, the client that it names is believed, and of no other', async () => {
  const route = { ...inputOf(openHttp({})), method: 'GET' } as const
  const ask = async (remoteAddress: string) => {
    const app = await serve(route, { trustProxy: ['10.0.0.0/8', 'loopback'] })
    const headers = { 'x-forwarded-for': '1.2.3.4, 10.1.1.1' }
    return (await app.inject({ url: '/', headers, remoteAddress })).json().remoteAddress
  }
  expect(await ask('10.2.2.2')).toBe('1.2.3.4')
  expect(await ask('127.0.0.1')).toBe('1.2.3.4')
  expect(await ask('192.168.1.1')).toBe('192.168.1.1')
  for (const proxy of ['proxy.example', '10.0.0.0/33', '10.0.0.0/', 'true'])
    await expect(serve(route, { trustProxy: [proxy] })).rejects.toMatchObject({
      code: 'WASM_SERVE_OPTIONS_INVALID',
    })
})

test('rate limits count the clients of a trusted proxy one by one', async () => {
  const rateLimit = { max: 1, timeWindowMs: 60_000 }
  const app = await serve({ plugin: guest('echo') }, { rateLimit, trustProxy: ['loopback'] })
  const ask = async (client: string) =>
    (await app.inject({ ...POST, headers: { 'x-forwarded-for': client } })).statusCode
  expect([await ask('1.1.1.1'), await ask('2.2.2.2'), await ask('1.1.1.1')]).toEqual([200, 200, 429])
})

test.each([
  'GET',
  'HEAD',
] as const)('%s of a file that is not there is told the methods of the route at its URL, and no other', async (method) => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-edge-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const app = await serve({ plugin: guest('echo'), url: '/a' }, { static: { '/': folder } })
  const { statusCode, headers } = await app.inject({ method, url: '/a' })
  expect([statusCode, headers.allow]).toEqual([405, 'POST'])
})
