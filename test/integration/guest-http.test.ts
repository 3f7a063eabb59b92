import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { RouteOptions } from '../../src/config/options.ts'
import { createServer, loadPlugin } from '../../src/index.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { sdk } from '../../src/runtime/sdk.ts'
import { suspending } from '../../src/runtime/suspending.ts'
import { guest } from '../support/guest.ts'
import { keepLog, settingsOf } from '../support/instance.ts'

/** A server on the loopback interface; closed when the test ends. */
async function origin(answer: RequestListener): Promise<string> {
  const server = createHttpServer(answer).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** An app with the guest `fetch` at `/`, `/headers`, `/last` and `/many`. */
async function serveFetch(route: Partial<RouteOptions>) {
  const functions = ['fetch', 'headers', 'last', 'many']
  const app = await createServer({
    logLevel: 'silent',
    routes: functions.map((name) => ({ plugin: guest('fetch'), url: `/${name}`, function: name, ...route })),
  })
  onTestFinished(() => app.close())
  return async (name: string, request: object | string = '') => {
    const payload = typeof request === 'string' ? request : JSON.stringify(request)
    const { statusCode, body } = await app.inject({ method: 'POST', url: `/${name}`, payload })
    return { statusCode, body }
  }
}

const engines = ['workers', 'subprocess', ...(suspending ? (['inline'] as const) : [])] as const

describe.each(engines)('a guest with an allowed host, with engine %s', (engine) => {
  const allowed = { allowedHosts: ['127.0.0.1'], engine }

  test('gets the status, the headers and the body of the response', async () => {
    const url = await origin((_request, response) => {
      response.writeHead(203, { 'x-a': 'b' }).end('hello')
    })
    const call = await serveFetch(allowed)
    expect(await call('fetch', { url })).toEqual({ statusCode: 200, body: '1203hello' })
    expect(JSON.parse((await call('headers', { url })).body.slice(4))).toMatchObject({ 'x-a': 'b' })
  })

  test('is told when a request is refused, and lives on', async () => {
    const call = await serveFetch(allowed)
    const refused = await call('fetch', { url: 'http://localhost:1/' })
    expect(refused.body).toMatch(/^1000WASM_SERVE_OUTBOUND_REFUSED: /)
    expect((await call('fetch', 'no json')).body).toMatch(/^2000WASM_SERVE_OUTBOUND_REQUEST_INVALID: /)
    const url = await origin((_request, response) => response.end('well'))
    expect((await call('fetch', { url })).body).toBe('3200well')
  })

  test('traps when a request is refused or fails, if the route says so', async () => {
    const call = await serveFetch({ ...allowed, httpErrors: 'trap' })
    for (const request of [{ url: 'http://localhost:1/' }, 'no json', { url: 'http://127.0.0.1:1/' }]) {
      const { statusCode, body } = await call('fetch', request)
      expect([statusCode, JSON.parse(body).code]).toEqual([500, 'WASM_SERVE_GUEST_TRAP'])
      expect(body).not.toContain('OUTBOUND')
    }
    const url = await origin((_request, response) => response.writeHead(500).end('their fault'))
    expect((await call('fetch', { url })).body).toBe('1500their fault')
  })

  test('is told when the response is too large', async () => {
    const url = await origin((_request, response) => response.end('x'.repeat(2_000)))
    const call = await serveFetch({ ...allowed, httpResponseMax: 1_000 })
    expect((await call('fetch', { url })).body).toMatch(/^1000WASM_SERVE_OUTBOUND_TOO_LARGE: /)
  })

  test('answers many requests, each with what belongs to it', async () => {
    const url = await origin((request, response) => response.end(request.url))
    const call = await serveFetch(allowed)
    const ids = Array.from({ length: 50 }, (_, id) => id)
    const answers = await Promise.all(ids.map((id) => call('fetch', { url: `${url}${id}` })))
    expect(answers.map(({ body }) => body.slice(4))).toEqual(ids.map((id) => `/${id}`))
  })
})

test('a call does not see the response of the call before', async () => {
  const http = {
    isAsync: false,
    send: () => ({ status: 200, headers: Buffer.from('{"secret":"x"}'), body: Buffer.from('x') }),
  }
  const instance = await kernel.open(await loadPlugin(guest('fetch')), { ...settingsOf(), http })
  onTestFinished(() => instance.close())
  const call = (name: string) =>
    Buffer.from(instance.call(name, new Uint8Array(), { log: keepLog() }) as Uint8Array)
  expect(call('fetch').toString()).toBe('1200x')
  expect(call('last').toString()).toBe('2000')
})

test('a call may send 32 requests', async () => {
  let requests = 0
  const url = await origin((_request, response) => response.end(String(++requests)))
  const call = await serveFetch({ allowedHosts: ['127.0.0.1'], timeoutMs: 20_000 })
  expect((await call('many', { url })).body).toMatch(/^1000a call may send 32/)
  expect(requests).toBe(32)
})

test('requests beyond that do not get as far as the host', async () => {
  let requests = 0
  const send = () => {
    requests++
    return { status: 200, headers: undefined, body: Buffer.from('x') }
  }
  const http = { isAsync: false, send }
  const instance = await kernel.open(await loadPlugin(guest('fetch')), { ...settingsOf(), http })
  onTestFinished(() => instance.close())
  for (const sent of [32, 64]) {
    instance.call('many', new Uint8Array(), { log: keepLog() })
    expect(requests).toBe(sent)
  }
})

test('a server that does not answer costs the call, which ends at its deadline, and nothing else', async () => {
  const opened: unknown[] = []
  const url = await origin((request) => opened.push(request))
  const call = await serveFetch({ allowedHosts: ['127.0.0.1'], timeoutMs: 300 })
  const { statusCode, body } = await call('fetch', { url })
  expect(statusCode).toBe(504)
  expect(JSON.parse(body)).toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
  expect(opened).toHaveLength(1)
  expect((await call('last')).statusCode).toBe(200)
})

test('without an allowed host a request is refused, and no thread is needed', async () => {
  const call = await serveFetch({})
  expect((await call('fetch', { url: 'http://127.0.0.1/' })).body).toMatch(
    /^1000HTTP requests are not allowed/,
  )
})

test.each([
  ['kernel', 'inline'],
  ['kernel', 'workers'],
  ['sdk', 'inline'],
  ['sdk', 'workers'],
] as const)('without an allowed host the guest finds status 0, or traps if the route says so (%s, %s)', async (runtime, engine) => {
  const route = { runtime, engine, ...(engine === 'workers' && { timeoutMs: 20_000 }) }
  const status = await serveFetch(route)
  for (const number of [1, 2])
    expect((await status('fetch', { url: 'http://127.0.0.1/' })).body).toMatch(
      new RegExp(`^${number}000HTTP requests are not allowed`),
    )
  expect((await status('headers', { url: 'http://127.0.0.1/' })).body).toMatch(/^1000/) // to the SDK no block is a byte long
  const trap = await serveFetch({ ...route, httpErrors: 'trap' })
  const { statusCode, body } = await trap('fetch', { url: 'http://127.0.0.1/' })
  expect([statusCode, JSON.parse(body).code]).toEqual([500, 'WASM_SERVE_GUEST_TRAP'])
  expect((await trap('last')).body).toMatch(/^1000/)
})

test.each([kernel, sdk])('the log says why a request trapped ($name)', async (runtime) => {
  const log = keepLog()
  const settings = { ...settingsOf({}, log), httpErrors: 'trap' } as const
  const instance = await runtime.open(await loadPlugin(guest('fetch')), settings)
  onTestFinished(() => instance.close())
  const request = Buffer.from('{"url":"http://127.0.0.1/"}')
  const call = async () => instance.call('fetch', new Uint8Array(request), { log })
  await expect(call()).rejects.toMatchObject({
    code: 'WASM_SERVE_GUEST_TRAP',
    cause: {
      reason: expect.stringContaining('HTTP requests are not allowed'),
    },
  })
  expect(log.lines).toEqual([])
})

test('a request beyond the 32nd traps too', async () => {
  const http = { isAsync: false, send: () => ({ status: 200, headers: undefined, body: Buffer.from('x') }) }
  const settings = { ...settingsOf(), http, httpErrors: 'trap' } as const
  const instance = await kernel.open(await loadPlugin(guest('fetch')), settings)
  onTestFinished(() => instance.close())
  const many = async () => instance.call('many', new Uint8Array(), { log: keepLog() })
  await expect(many()).rejects.toMatchObject({
    cause: { reason: expect.stringContaining('32 HTTP requests') },
  })
})

test.skipIf(suspending)(
  'where guests cannot wait on the event loop, engine inline with a host is refused',
  async () => {
    await expect(serveFetch({ allowedHosts: ['127.0.0.1'], engine: 'inline' })).rejects.toMatchObject({
      code: 'WASM_SERVE_HOST_FUNCTION_ASYNC',
    })
  },
)
