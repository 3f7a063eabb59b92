import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { guest } from './guest.ts'
import { sendInterim } from './outbound.ts'

/** A server on the loopback interface; closed when the test ends. */
export async function origin(answer: RequestListener): Promise<string> {
  const server = createHttpServer(answer).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** An app with functions of the guest `fetch`, which has `headers`, `last` and `many` too: each is a route, with its own thread. */
export async function serveFetch(route: Partial<RouteOptions>, functions: readonly string[] = ['fetch']) {
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

/** The shared suite of outbound HTTP requests, for all engines. */
export function describeGuestHttp(engine: NonNullable<RouteOptions['engine']>): void {
  describe(`a guest with an allowed host, with engine ${engine}`, () => {
    const allowed = { allowedHosts: ['127.0.0.1'], engine, ...(engine !== 'inline' && { spareWorkers: 0 }) }

    test('gets the status, the headers and the body of the response', async () => {
      const url = await origin((_request, response) => {
        response.writeHead(203, { 'x-a': 'b' }).end('hello')
      })
      const call = await serveFetch(allowed, ['fetch', 'headers'])
      expect(await call('fetch', { url })).toEqual({ statusCode: 200, body: '1203hello' })
      expect(JSON.parse((await call('headers', { url })).body.slice(4))).toMatchObject({ 'x-a': 'b' })
    })

    test('is told when a request is refused, and lives on, if the route says so', async () => {
      const call = await serveFetch({ ...allowed, httpErrors: 'status' })
      const refused = await call('fetch', { url: 'http://localhost:1/' })
      expect(refused.body).toMatch(/^1000WASM_SERVE_OUTBOUND_REFUSED: /)
      expect((await call('fetch', 'no json')).body).toMatch(/^2000WASM_SERVE_OUTBOUND_REQUEST_INVALID: /)
      const url = await origin((_request, response) => response.end('well'))
      expect((await call('fetch', { url })).body).toBe('3200well')
    })

    test('traps when a request is refused or fails, and the client does not learn where it went', async () => {
      const call = await serveFetch(allowed)
      const refusing = await origin((_request, response) => {
        response.writeHead(302, { location: 'http://localhost:1/' }).end()
      })
      const urls = ['http://localhost:1/', refusing, 'http://127.0.0.1:1/']
      for (const request of [...urls.map((url) => ({ url })), 'no json']) {
        const { statusCode, body } = await call('fetch', request)
        expect([statusCode, JSON.parse(body).code]).toEqual([500, 'WASM_SERVE_GUEST_TRAP'])
        expect(body).not.toMatch(/OUTBOUND|localhost|127\.0\.0\.1|allow/)
      }
      const url = await origin((_request, response) => response.writeHead(500).end('their fault'))
      expect((await call('fetch', { url })).body).toBe('1500their fault')
    })

    test('traps when the response is too large, or is told', async () => {
      const url = await origin((_request, response) => response.end('x'.repeat(2_000)))
      const call = await serveFetch({ ...allowed, httpResponseMax: 1_000 })
      expect((await call('fetch', { url })).statusCode).toBe(500)
      const told = await serveFetch({ ...allowed, httpResponseMax: 1_000, httpErrors: 'status' })
      expect((await told('fetch', { url })).body).toMatch(/^1000WASM_SERVE_OUTBOUND_TOO_LARGE: /)
    })

    test('is told when a server sends interim responses without end', async () => {
      const url = await origin(({ socket }) => sendInterim(socket))
      const call = await serveFetch({ ...allowed, httpErrors: 'status' })
      expect((await call('fetch', { url })).body).toMatch(/^1000WASM_SERVE_OUTBOUND_FAILED: .* interim /)
    })

    test('answers many requests, each with what belongs to it', async () => {
      const url = await origin((request, response) => response.end(request.url))
      const call = await serveFetch(allowed)
      const ids = Array.from({ length: 50 }, (_, id) => id)
      const answers = await Promise.all(ids.map((id) => call('fetch', { url: `${url}${id}` })))
      expect(answers.map(({ body }) => body.slice(4))).toEqual(ids.map((id) => `/${id}`))
    })
  })
}
