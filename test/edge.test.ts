import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { loadPackage } from '../src/optional-package.ts'
import { guest } from './support/guest.ts'
import { listen, serve } from './support/serve.ts'

const KEY = 'first-key-0123456789'
const POST = { method: 'POST', url: '/', body: 'hi' } as const
const cors = { origin: ['https://a.example', 'https://b.example'], methods: ['POST'], credentials: true }
const PREFLIGHT = { origin: 'https://b.example', 'access-control-request-method': 'POST' }

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
  const broken = () => Promise.reject(Object.assign(new Error('broken'), { code: 'ERR_DLOPEN_FAILED' }))
  await expect(loadPackage('cors', '@fastify/cors', broken)).rejects.toThrow('broken')
})
