import { once } from 'node:events'
import { METHODS, request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import { AUTHORIZED, TOKEN } from '../support/admin.ts'
import { type Running, run, start } from '../support/cli.ts'
import { guest } from '../support/guest.ts'
import { open } from '../support/socket.ts'

/** The address that the command prints on standard error before it listens. */
async function probesOf(server: Running): Promise<string> {
  const line = await server.logged(/^The listener for probes is on \S+$/m)
  return /listener for probes is on (\S+)/.exec(line)?.[1] ?? ''
}

/** A server with a listener for probes, and both addresses. */
async function serve(words: readonly string[] = [], env: NodeJS.ProcessEnv = {}) {
  const server = start([guest('echo'), '0', '--probes', '127.0.0.1:0', ...words], env)
  const url = await server.listening()
  return { server, url, probes: await probesOf(server) }
}

/** Sends one request as it is, and returns its answer. */
async function send(url: string, head: string) {
  const client = await open(Number(new URL(url).port))
  client.send(`${head}\r\n\r\n`)
  const { status, headers, body } = (await client.answer()) ?? {}
  const code = body?.length ? JSON.parse(String(body)).code : undefined
  return { status, headers, code }
}

test('probes are answered without a token and without an admin listener, and calls are counted', async () => {
  const { server, url, probes } = await serve()
  const read = async (path: string) => {
    const answer = await fetch(`${probes}${path}`)
    return [answer.status, await answer.text()]
  }
  expect(await read('/healthz')).toEqual([200, '{"healthy":true,"reasons":[]}'])
  expect(await read('/readyz')).toEqual([200, '{"ready":true,"reasons":[]}'])
  expect(await (await fetch(url, { method: 'POST', body: 'a1' })).text()).toBe('a1')
  const [status, metrics] = await read('/metrics')
  expect(status).toBe(200)
  expect(metrics).toMatch(/^wasm_serve_calls_total\{.*outcome="ok"\} 1$/m)
  expect(server.stderr()).not.toContain('admin listener')
})

test('nothing else is there, with an admin listener beside it too', async () => {
  const { probes } = await serve(['--admin', '127.0.0.1:0'], { WASM_SERVE_ADMIN_TOKEN: TOKEN })
  for (const path of [
    '/',
    '/console/console.js',
    '/api/plugins',
    '/routes/openapi.json',
    '/healthz/',
    '/%zz',
  ]) {
    const answer = await fetch(`${probes}${path}`, { headers: AUTHORIZED })
    const expected = path === '/%zz' ? 400 : 404
    expect([path, answer.status, answer.headers.get('cache-control')]).toEqual([path, expected, 'no-store'])
  }
})

test('every method but GET and HEAD is refused before its body is read', async () => {
  const { probes } = await serve()
  const methods = METHODS.filter((method) => !['GET', 'HEAD', 'CONNECT'].includes(method))
  const refused = methods.map(async (method) => {
    const length = 'content-length: 9007199254740991'
    const answer = await send(probes, `${method} /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n${length}`)
    return [method, answer.status, answer.code, answer.headers?.allow]
  })
  expect(await Promise.all(refused)).toEqual(
    methods.map((method) => [method, 405, 'WASM_SERVE_METHOD_NOT_ALLOWED', 'GET, HEAD']),
  )
  expect((await fetch(`${probes}/readyz`, { method: 'HEAD' })).status).toBe(200)
})

test('a client that sends half a request is answered with 408', async () => {
  const { probes } = await serve(['--headers-timeout-ms', '50'])
  const client = await open(Number(new URL(probes).port))
  client.send('GET /readyz HTTP/1.1\r\nhost:')
  expect(await client.answer()).toMatchObject({ status: 408 })
})

test('while the server drains it is healthy and not ready, until its last request is answered', async () => {
  const { server, url, probes } = await serve([], { WASM_SERVE_GRACE_MS: '30000' })
  const call = request(url, { method: 'POST', headers: { 'content-length': 2 } })
  call.write('a') // the call waits for the rest
  await once(call, 'socket')
  await fetch(url, { method: 'POST', body: 'b' }) // the first one has arrived
  server.kill('SIGTERM')
  const ready = async () => {
    const answer = await fetch(`${probes}/readyz`)
    return [answer.status, await answer.json()]
  }
  while ((await ready())[0] === 200) await new Promise(setImmediate)
  expect(await ready()).toEqual([503, { ready: false, reasons: ['the server is shutting down'] }])
  expect((await fetch(`${probes}/healthz`)).status).toBe(200)
  call.end('1')
  const [answer] = await once(call, 'response')
  expect([answer.statusCode, String((await once(answer, 'data'))[0])]).toEqual([200, 'a1'])
  expect((await server.ended).code).toBe(0)
  await expect(fetch(`${probes}/healthz`)).rejects.toThrow()
})

test.each([
  ['127.0.0.1:0', 'evil.example', 403],
  ['127.0.0.1:0', '127.0.0.1:9091', 200],
  ['127.0.0.1:0', 'localhost', 200],
  ['0.0.0.0:0', 'wasm-serve.default.svc', 200],
])('on %s a request for the host %s is answered with %i', async (address, host, status) => {
  const server = start([guest('echo'), '0', '--probes', address])
  await server.listening()
  const probes = await probesOf(server)
  expect(await send(probes, `GET /readyz HTTP/1.1\r\nhost: ${host}`)).toMatchObject({ status })
  const foreign = await send(probes, `GET /metrics HTTP/1.1\r\nhost: ${host}\r\norigin: http://evil.example`)
  expect(foreign).toMatchObject({ status: 403, code: 'WASM_SERVE_ADMIN_ORIGIN_REFUSED' })
})

test.each([
  'nonsense',
  '127.0.0.1',
  'host:port',
  '127.0.0.1:65536',
])('an address that is none is refused: %s', async (probes) => {
  const { code, stderr } = await run([guest('echo'), '0', '--probes', probes])
  expect([code, stderr]).toEqual([2, expect.stringContaining('--probes: must be HOST:PORT')])
})

test('an address that is taken ends the command, with its admin listener', async () => {
  const { probes } = await serve()
  const { port } = new URL(probes)
  const { code, stderr } = await run([guest('echo'), '0', '--admin', '0', '--probes', port])
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining('the port is in use; choose another with --probes'),
  ])
})

test('the address comes from a variable, too', async () => {
  const server = start([guest('echo'), '0'], { WASM_SERVE_PROBES: '0' })
  await server.listening()
  expect((await fetch(`${await probesOf(server)}/readyz`)).status).toBe(200)
})

test('an app of createServer has the listener until it closes', async () => {
  const routes = [{ plugin: guest('echo') }]
  const app = await createServer({ logLevel: 'silent', stallMs: 0, probes: '127.0.0.1:0', routes })
  onTestFinished(() => app.close())
  expect(app.adminUrl).toBeUndefined()
  expect((await fetch(`${app.probesUrl}/readyz`)).status).toBe(200)
  await app.close()
  await expect(fetch(`${app.probesUrl}/readyz`)).rejects.toThrow()
})
