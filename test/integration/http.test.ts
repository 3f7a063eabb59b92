import { METHODS } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { InjectOptions } from 'fastify'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import type { RouteOptions, ServerOptions } from '../../src/options/options.ts'
import { guest } from '../support/guest.ts'
import { serve } from '../support/serve.ts'
import { exchange, open, post } from '../support/socket.ts'

const POST = { method: 'POST', url: '/' } as const
const ID = /^[\da-f]{32}$/
const OTHER_METHODS = METHODS.filter((method) => method !== 'POST' && method !== 'CONNECT')

/** An app whose log lines can be read, closed when the test ends. */
async function serveAndLog(route: RouteOptions, options: Partial<ServerOptions> = {}) {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'trace' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const app = await createServer({ ...options, routes: [route] }, log)
  onTestFinished(() => app.close())
  return { app, lines }
}

const rawRequest = (method: string, url: string, headers = '') =>
  `${method} ${url} HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n${headers}\r\n`

describe('what the guest produced is the answer', () => {
  const TEXT = 'text/plain; charset=utf-8'
  const BYTES = 'application/octet-stream'

  test.each([
    ['text', 'echo', 'h\u00e9llo \u{1f600}', TEXT, 'h\u00e9llo \u{1f600}'],
    ['bytes', 'bytes', '', BYTES, Buffer.from('828180fcfdfeff00', 'hex')],
    ['no more than it named', 'short', '', TEXT, '12345'],
    ['nothing', 'silent', 'abc', TEXT, ''],
    ['an empty output', 'echo', '', TEXT, ''],
    ['all 256 bytes', 'echo', Buffer.from(Array.from({ length: 256 }, (_, i) => i)), BYTES],
    ['half a character', 'echo', Buffer.from('\u{1f600}').subarray(0, 3), BYTES],
  ])('%s', async (_name, plugin, body, contentType, output = body) => {
    const app = await serve({ plugin: guest(plugin) })
    const reply = await app.inject({ ...POST, body })
    expect(reply.statusCode).toBe(200)
    expect(reply.rawPayload.equals(Buffer.from(output))).toBe(true)
    expect(reply.headers).toMatchObject({
      'content-type': contentType,
      'content-length': String(Buffer.byteLength(output)),
      'x-content-type-options': 'nosniff',
    })
  })

  test('with the content type of the route, if it has one', async () => {
    const app = await serve({ plugin: guest('bytes'), contentType: 'image/png' })
    expect((await app.inject(POST)).headers['content-type']).toBe('image/png')
  })
})

describe('a method other than POST', () => {
  test.each(
    OTHER_METHODS.filter((method) => method !== 'HEAD'),
  )('%s is refused before its body is read', async (method) => {
    const app = await serve({ plugin: guest('echo') })
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as AddressInfo
    const client = await open(port)
    client.send(rawRequest(method, '/'))
    const answer = await client.answer()
    expect(answer).toMatchObject({
      status: 405,
      headers: { allow: 'POST', 'content-type': 'application/problem+json' },
    })
    expect(JSON.parse(String(answer?.body)).code).toBe('WASM_SERVE_METHOD_NOT_ALLOWED')
  })

  test('is refused without a body if it is HEAD', async () => {
    const app = await serve({ plugin: guest('echo') })
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const reply = await fetch(url, { method: 'HEAD' })
    expect([reply.status, reply.headers.get('allow'), await reply.text()]).toEqual([405, 'POST', ''])
  })
})

test.each(
  OTHER_METHODS.filter((method) => method !== 'HEAD').concat('POST'),
)('%s on an unknown URL is answered with 404 before its body is read', async (method) => {
  const app = await serve({ plugin: guest('echo') })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const client = await open((app.server.address() as AddressInfo).port)
  client.send(rawRequest(method, '/unknown?a=b', 'Content-Type: nonsense\r\n'))
  const answer = await client.answer()
  expect(answer).toMatchObject({ status: 404, headers: { 'content-type': 'application/problem+json' } })
  expect(JSON.parse(String(answer?.body)).code).toBe('WASM_SERVE_ROUTE_NOT_FOUND')
})

describe('a failure', () => {
  test('that is the guest saying no has its exact message', async () => {
    const app = await serve({ plugin: guest('refuse') })
    const message = 'no \u{1f600} <b>&\n%s'
    const reply = await app.inject({ ...POST, body: message })
    expect(reply).toMatchObject({ statusCode: 409, body: message })
    expect(reply.headers['content-type']).toBe('text/plain; charset=utf-8')
  })

  test('that is a trap tells nothing about the server, and the next call is served', async () => {
    const app = await serve({ plugin: guest('trap') })
    const reply = await app.inject({ ...POST, body: 'trap' })
    expect(reply.statusCode).toBe(500)
    expect(reply.headers['content-type']).toBe('application/problem+json')
    expect(reply.json()).toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
    expect(reply.body).not.toMatch(/wasm:\/\/|node:|\bat |stack|unreachable|\.wasm|\.ts|\//)
    expect(await app.inject({ ...POST, body: 'ok' })).toMatchObject({ statusCode: 200, body: 'ok' })
  })

  test.each([
    [
      'an output over the limit',
      { plugin: guest('echo'), outputLimit: 2 },
      502,
      'WASM_SERVE_OUTPUT_TOO_LARGE',
    ],
    ['a body over the limit', { plugin: guest('echo'), bodyLimit: 2 }, 413, 'WASM_SERVE_BODY_TOO_LARGE'],
  ])('that is %s has a code', async (_name, route, status, code) => {
    const app = await serve(route)
    const reply = await app.inject({ ...POST, body: 'abc' })
    expect(reply.statusCode).toBe(status)
    expect(reply.json()).toMatchObject({ status, code, requestId: reply.headers['x-request-id'] })
    expect(reply.headers['content-length']).toBe(String(reply.rawPayload.length))
    expect((await app.inject({ ...POST, body: 'ab' })).body).toBe('ab')
  })

  test('that is a body over the limit is told to a client that sends all of it first', async () => {
    const app = await serve({ plugin: guest('echo') })
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as AddressInfo
    const client = await open(port)
    client.socket.pause()
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${8 * 1024 ** 2}\r\n\r\n`)
    await new Promise((resolve, reject) => {
      client.socket.once('error', reject)
      client.socket.write(Buffer.alloc(8 * 1024 ** 2), resolve)
    })
    client.socket.resume()
    expect((await client.answers()).map(({ status }) => status)).toEqual([413])
  })
})

describe('a client that does not wait for its answers', () => {
  const listen = async (...routes: RouteOptions[]): Promise<number> => {
    const app = await createServer({ logLevel: 'silent', routes })
    onTestFinished(() => app.close())
    await app.listen({ host: '127.0.0.1', port: 0 })
    return (app.server.address() as AddressInfo).port
  }
  const inThread = { engine: 'workers', workers: 1 } as const

  test('and expects 100 gets no part of that within an answer', async () => {
    const slow = { url: '/slow', plugin: guest('loop'), timeoutMs: 100, ...inThread }
    const port = await listen(slow, { plugin: guest('echo') })
    const body = 'x'.repeat(10_000)
    const requests = post('', '', '/slow') + post(body, 'Expect: 100-continue\r\nConnection: close\r\n')
    const answers = (await exchange(port, requests)).filter(({ status }) => status !== 100)
    expect(answers.map(({ status }) => status)).toEqual([504, 200])
    expect(`${answers[1]?.body}`).toBe(body)
  })

  test('and sends garbage after a request gets the answer and the error', async () => {
    const port = await listen({ plugin: guest('echo'), ...inThread })
    const answers = await exchange(port, `${post('first')}garbage\r\n\r\n`)
    expect(answers.map(({ status }) => status)).toEqual([200, 400])
    expect(JSON.parse(`${answers[1]?.body}`)).toMatchObject({ code: 'WASM_SERVE_BAD_REQUEST' })
  })

  test('and speaks HTTP/1.0 gets no 100', async () => {
    const port = await listen({ plugin: guest('echo') })
    const old = post('abc', 'Expect: 100-continue\r\n').replace('HTTP/1.1', 'HTTP/1.0')
    expect((await exchange(port, old)).map(({ status }) => status)).toEqual([200])
  })
})

describe('the request id', () => {
  const requests: [string, InjectOptions][] = [
    ['200', { ...POST, body: 'ok' }],
    ['500', { ...POST, body: 'trap' }],
    ['413', { ...POST, body: 'x'.repeat(99) }],
    ['405', { method: 'GET', url: '/' }],
    ['404', { ...POST, url: '/unknown' }],
    ['400', { ...POST, url: '/%zz' }],
  ]

  test.each(
    requests,
  )('of the client is on the answer %s and on each line that is logged', async (status, request) => {
    const { app, lines } = await serveAndLog({ plugin: guest('trap'), bodyLimit: 50 }, { accessLog: true })
    const before = lines.length
    const reply = await app.inject({ ...request, headers: { 'x-request-id': 'a-Sane.id:1' } })
    expect(reply.statusCode).toBe(Number(status))
    expect(reply.headers).toMatchObject({
      'x-request-id': 'a-Sane.id:1',
      'x-content-type-options': 'nosniff',
    })
    await expect.poll(() => lines.slice(before).length).toBeGreaterThan(0)
    expect(lines.slice(before).map(({ reqId }) => reqId)).toEqual(
      lines.slice(before).map(() => 'a-Sane.id:1'),
    )
  })

  test.each([
    ['too long', `X-Request-Id: ${'a'.repeat(129)}\r\n`],
    ['empty', 'X-Request-Id:\r\n'],
    ['with a space', 'X-Request-Id: a b\r\n'],
    ['with a tab', 'X-Request-Id: a\tb\r\n'],
    ['with odd characters', 'X-Request-Id: <script>"\r\n'],
    ['not ASCII', 'X-Request-Id: h\u00e9\r\n'],
    ['sent twice', 'X-Request-Id: a\r\nX-Request-Id: b\r\n'],
    ['missing', ''],
  ])('is replaced if it is %s', async (_name, header) => {
    const app = await serve({ plugin: guest('echo') })
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as AddressInfo
    for (const url of ['/', '/unknown']) {
      const request = `POST ${url} HTTP/1.1\r\nHost: a\r\n${header}Connection: close\r\nContent-Length: 0\r\n\r\n`
      const [answer] = await exchange(port, Buffer.from(request, 'latin1'))
      expect(answer?.headers['x-request-id']).toMatch(ID)
    }
  })
})

describe('the log', () => {
  test('has no line of a request that goes well', async () => {
    const { app, lines } = await serveAndLog({ plugin: guest('echo') })
    const before = lines.length
    for (let i = 0; i < 3; i++) await app.inject({ ...POST, body: 'abc' })
    expect(lines.slice(before)).toEqual([])
  })

  test.each([
    ['POST', '/', 200],
    ['GET', '/', 405],
    ['POST', '/unknown?a=b', 404],
    ['POST', '/%zz', 400],
  ] as const)('has one line for %s %s with accessLog', async (method, url, status) => {
    const { app, lines } = await serveAndLog({ plugin: guest('echo') }, { accessLog: true })
    await app.inject({ method, url })
    const requests = () => lines.filter((line) => 'ms' in line)
    await expect.poll(requests).toMatchObject([{ level: 30, method, url, status, ms: expect.any(Number) }])
  })

  test('has the cause of a trap', async () => {
    const { app, lines } = await serveAndLog({ plugin: guest('trap') })
    await app.inject({ ...POST, body: 'trap' })
    expect(lines).toContainEqual(expect.objectContaining({ level: 50, code: 'WASM_SERVE_GUEST_TRAP' }))
  })
})
