import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { exchange, open, post } from '../support/socket.ts'

const GRACE_MS = 10_000

async function listening(...flags: string[]) {
  return listeningIn({}, ...flags)
}

async function listeningIn(env: NodeJS.ProcessEnv, ...flags: string[]) {
  const server = start([guest('echo'), '0', ...flags], env)
  const url = await server.listening()
  return { ...server, url, port: Number(new URL(url).port) }
}

/** Begins a request and waits until the server has, too; its body is to follow. */
async function begin(port: number, length: number, url = '/') {
  const client = await open(port)
  client.send(`POST ${url} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`)
  expect((await client.answer())?.status).toBe(100)
  return client
}

/** Waits until nobody listens. */
async function refused(port: number): Promise<void> {
  for (;;) {
    const socket = connect({ port, host: '127.0.0.1' })
    const isOpen = await new Promise((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    })
    socket.destroy()
    if (!isOpen) return
  }
}

test('a server with nothing to do ends soon after SIGTERM, with 0', async () => {
  const server = await listening()
  const begun = performance.now()
  server.child.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
  expect(performance.now() - begun).toBeLessThan(GRACE_MS / 2)
})

test('kept-alive connections without a request do not hold up the end', async () => {
  const server = await listening()
  const clients = await Promise.all(Array.from({ length: 10 }, () => open(server.port)))
  for (const client of clients) {
    client.send(post('abc'))
    expect((await client.answer())?.headers.connection).toBe('keep-alive')
  }
  const begun = performance.now()
  server.child.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
  expect(performance.now() - begun).toBeLessThan(GRACE_MS / 2)
})

test('a connection that never carried a request does not hold up the end', async () => {
  const server = await listening()
  await open(server.port)
  const begun = performance.now()
  server.child.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
  expect(performance.now() - begun).toBeLessThan(GRACE_MS / 2)
})

test('a connection whose client is busy after it was opened has time for its request', async () => {
  const server = await listening('--drain-ms', '0')
  const client = await open(server.port)
  server.child.kill('SIGTERM')
  await server.logged('closing')
  await sleep(300) // no event tells that the listener has closed, and an unused connection with it
  client.send(post('abc'))
  expect(await client.answers()).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  expect(await server.ended).toMatchObject({ code: 0 })
})

test.each(['SIGTERM', 'SIGINT'] as const)('%s under load costs no request', async (signal) => {
  const server = await listening()
  const load = startLoad({ url: server.url, connections: 100 })
  await load.answered(1_000)
  server.child.kill(signal)
  expect(await load.ended).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 100 })
  expect(load.counts.closing).toBeGreaterThanOrEqual(100)
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('a signal under load costs no request without a time to drain either', async () => {
  const server = await listening('--drain-ms', '0')
  const load = startLoad({ url: server.url, connections: 100 })
  await load.answered(1_000)
  server.child.kill('SIGTERM')
  expect(await load.ended).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 100 })
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('after the signal, answers say that the connection closes, on old connections and new ones', async () => {
  const server = await listening('--drain-ms', '5000')
  const before = await open(server.port)
  before.send(post('abc'))
  expect((await before.answer())?.headers.connection).toBe('keep-alive')
  server.child.kill('SIGTERM')
  await server.logged('closing')
  const after = await open(server.port)
  for (const client of [before, after]) {
    client.send(post('abc'))
    expect(await client.answers()).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  }
})

test('a request whose body is still arriving when the listener closes is answered, and told to close', async () => {
  const server = await listening('--drain-ms', '0')
  const client = await begin(server.port, 6)
  client.send('abc')
  server.child.kill('SIGTERM')
  await refused(server.port)
  client.send('def')
  const [answer, ...others] = await client.answers()
  expect(answer).toMatchObject({ status: 200, headers: { connection: 'close' } })
  expect([String(answer?.body), others]).toEqual(['abcdef', []])
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('a kept-alive connection stays in use as long as another request is in flight', async () => {
  const server = await listening('--drain-ms', '0')
  const idle = await open(server.port)
  idle.send(post('abc'))
  expect((await idle.answer())?.headers.connection).toBe('keep-alive')
  const busy = await begin(server.port, 3)
  server.child.kill('SIGTERM')
  await refused(server.port)
  idle.send(post('abc'))
  expect(await idle.answers()).toMatchObject([{ status: 200, headers: { connection: 'close' } }])
  busy.send('abc')
  expect(await busy.answers()).toMatchObject([{ status: 200 }])
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('requests that were sent ahead on one connection are all answered, and the last one closes', async () => {
  const server = await listening('--drain-ms', '5000')
  server.child.kill('SIGTERM')
  await server.logged('closing')
  const client = await open(server.port)
  client.send(post('1') + post('2') + post('3'))
  const answers = await client.answers()
  expect(answers.map(({ body, headers }) => [String(body), headers.connection])).toEqual([
    ['1', 'keep-alive'],
    ['2', 'keep-alive'],
    ['3', 'close'],
  ])
})

test('an answer that the client has not read yet when the listener closes arrives in full', async () => {
  const size = 8_000_000 // more than the kernel buffers
  const server = await listening('--drain-ms', '0', '--body-limit', String(size))
  const client = await open(server.port)
  client.send(post('x'.repeat(size)))
  client.socket.once('data', () => client.socket.pause())
  await once(client.socket, 'data')
  server.child.kill('SIGTERM')
  await refused(server.port)
  client.socket.resume()
  expect((await client.answer())?.body.length).toBe(size)
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('a client that is still sending when it is told 404 and to close is not reset', async () => {
  const server = await listening('--drain-ms', '5000')
  server.child.kill('SIGTERM')
  await server.logged('closing')
  const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true })
  socket.write('POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nx')
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toMatch(/^HTTP\/1.1 404 .*connection: close/is)
  await once(socket, 'end') // the server says no more
  for (const byte of ['x', 'x', 'x']) {
    await exchange(server.port, post('abc')) // it has had the time to do more
    expect(await new Promise((resolve) => socket.write(byte, resolve))).toBeFalsy()
  }
  socket.end()
  expect(await once(socket, 'close')).toEqual([false])
})

test('a request that does not end is cut off after the grace, and the end is in good order', async () => {
  const server = await listening('--drain-ms', '0', '--grace-ms', '200')
  const client = await begin(server.port, 6)
  server.child.kill('SIGTERM')
  expect(await client.answers()).toEqual([])
  const { code, stderr } = await server.ended
  expect(code).toBe(0)
  expect(stderr).toContain('"connections":1,"graceMs":200')
})

test('a second signal ends the server at once, with 1', async () => {
  const server = await listening()
  await begin(server.port, 6)
  const begun = performance.now()
  server.child.kill('SIGTERM')
  await server.logged('closing')
  const impatient = setInterval(() => server.child.kill('SIGTERM'), 50)
  const { code, stderr } = await server.ended
  clearInterval(impatient)
  expect(code).toBe(1)
  expect(stderr).toContain('second signal')
  expect(performance.now() - begun).toBeLessThan(GRACE_MS / 2)
})

test('signals that come together are one where npm may hand a copy on', async () => {
  const server = await listeningIn({ npm_config_user_agent: 'npm' })
  const client = await begin(server.port, 3)
  server.child.kill('SIGINT')
  server.child.kill('SIGTERM')
  await server.logged('closing')
  client.send('abc')
  expect(await client.answers()).toMatchObject([{ status: 200 }])
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('a hang-up does not end a server that has no terminal, such as one started with nohup', async () => {
  const server = await listening()
  server.child.kill('SIGHUP')
  const client = await open(server.port)
  client.send(post('abc'))
  expect((await client.answer())?.headers.connection).toBe('keep-alive')
  server.child.kill('SIGTERM')
  expect((await server.ended).stderr).toContain('"reason":"SIGTERM"')
})

test('who waits for a guest that does not return is told that the server shuts down, and it ends in time', async () => {
  const flags = ['--workers', '1', '--timeout', '60000', '--drain-ms', '0', '--grace-ms', '500']
  const server = start([guest('loop'), '0', ...flags])
  const port = Number(new URL(await server.listening()).port)
  const [running, waiting] = [await begin(port, 1), await begin(port, 1)]
  running.send('x')
  waiting.send('x')
  const begun = performance.now()
  server.child.kill('SIGTERM')
  const answers = await Promise.all([running.answer(), waiting.answer()])
  const codes = answers.map((answer) => JSON.parse(String(answer?.body)).code).sort()
  expect(answers.map((answer) => answer?.status)).toEqual([503, 503])
  expect(codes).toEqual(['WASM_SERVE_ENGINE_CLOSED', 'WASM_SERVE_SHUTTING_DOWN'])
  const { code, stderr } = await server.ended
  expect(performance.now() - begun).toBeLessThan(500 + 1_000 + 4_000) // what a busy machine takes more
  expect(code).toBe(0)
  expect(stderr).not.toMatch(/did not start|WORKER_LOST|replaced/)
})

test('a second signal ends guests in threads, and the log has no failures that are none', async () => {
  const server = start([guest('loop'), '0', '--workers', '1', '--timeout', '60000', '--grace-ms', '60000'])
  const port = Number(new URL(await server.listening()).port)
  const client = await begin(port, 1)
  client.send('x')
  server.child.kill('SIGTERM')
  await server.logged('closing')
  server.child.kill('SIGTERM')
  const { code, stderr } = await server.ended
  expect(code).toBe(1)
  expect(stderr).not.toMatch(/did not start|WORKER_LOST|replaced/)
})
