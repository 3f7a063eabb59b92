import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type ServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { openPage } from '../support/browser.ts'
import { selfSigned } from '../support/certificate.ts'
import { run, start } from '../support/cli-process.ts'
import { file, guest } from '../support/guest.ts'
import { startProcesses } from '../support/processes.ts'
import { listen } from '../support/serve.ts'
import { describeWith } from '../support/tools.ts'
import { frame, openRawSocket, openSocket, PONG, type SocketClient, TEXT } from '../support/web-socket.ts'

const ECHO = { plugin: guest('echo'), contract: 'websocket' } as const
const SOCKET = { plugin: guest('socket'), contract: 'websocket', function: 'echo', spareWorkers: 0 } as const

/** Sends messages that are unique to the connection, some at a time. @returns how many had the right answer. */
async function talk({ socket, next }: SocketClient, id: number, messages: number): Promise<number> {
  let right = 0
  for (let first = 0; first < messages; first += 20) {
    const some = Array.from({ length: Math.min(20, messages - first) }, (_, at) => `${id} ${first + at}`)
    for (const message of some) socket.send(message)
    for (const message of some) if ((await next()) === message) right++
  }
  return right
}

test.each([
  ['inline', {}],
  ['workers', { workers: 2 }],
  ['subprocess', { engine: 'subprocess', workers: 1 }],
] as const)('200 connections get the answers to their own messages, in order: %s', async (_engine, route) => {
  const { port } = await listen({ ...ECHO, ...route })
  const connections = await Promise.all(Array.from({ length: 200 }, () => openSocket(port)))
  const right = await Promise.all(connections.map((connection, id) => talk(connection, id, 100)))
  expect(right.filter((count) => count !== 100)).toEqual([])
})

test.each([
  ['workers', {}],
  ['subprocess', { engine: 'subprocess' }],
] as const)('guests serve many connections at the same time: %s', async (_engine, route) => {
  const { port } = await listen({ ...SOCKET, ...route, workers: 4, maxWaitMs: 20_000 })
  const served = Array.from({ length: 24 }, async (_, id) => {
    const connection = await openSocket(port)
    const right = await talk(connection, id, 100)
    connection.socket.close()
    await connection.closed
    return right
  })
  expect((await Promise.all(served)).filter((count) => count !== 100)).toEqual([])
})

test('the time limit of a connection begins anew with each message', async () => {
  const { port } = await listen({ ...SOCKET, workers: 1, timeoutMs: 400 })
  // Two calls of functions are charged for each, 20 us each: more than the limit in total.
  expect(await talk(await openSocket(port), 1, 12_000)).toBe(12_000)
})

test('while apps are swapped, each call in progress is answered before its connection closes', async () => {
  const server = await listen(ECHO)
  let isOver = false
  const outcomes = Array.from({ length: 20 }, async (_, id) => {
    let crossed = 0
    for (let round = 0; !isOver; round++) {
      const client = await openSocket(server.port).catch(() => undefined) // refused by an app that is replaced
      for (let number = 0; client && !isOver; number++) {
        const message = `${id} ${round} ${number}`
        client.socket.send(message)
        const answer = await client.next()
        if (answer === undefined) break
        if (answer !== message) crossed++
      }
      if (client && !isOver) expect(await client.closed).toEqual([1001, ''])
      client?.socket.terminate()
    }
    return crossed
  })
  for (let swap = 0; swap < 10; swap++) {
    const { app } = await createApp(checkServerOptions({ stallMs: 0, routes: [ECHO] }), openLog('silent'))
    await server.replace(app)
  }
  isOver = true
  expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => 0))
})

test('a thread that is lost ends the connection of its call, and no other', async () => {
  const functions = file(
    'lose.mjs',
    `export default { env: { relay(context, input) { if (context.read(input).text() === 'die') process.exit(); return input } } }`,
  )
  const { port } = await listen({ plugin: guest('relay'), contract: 'websocket', functions, workers: 2 })
  const [lost, other] = [await openSocket(port), await openSocket(port)]
  lost.socket.send('die')
  expect(await lost.closed).toEqual([1011, 'WASM_SERVE_WORKER_LOST'])
  expect(await talk(other, 1, 20)).toBe(20)
})

test('half-open, reset and silent clients leave nothing behind', async () => {
  const { port } = await listen({ ...SOCKET, workers: 2, websocketMax: 12 })
  for (let round = 0; round < 5; round++) {
    const half = await openRawSocket(port)
    half.client.send(frame(TEXT, 'a'))
    half.socket.end()
    const reset = await openRawSocket(port)
    reset.client.send(frame(TEXT, 'a').subarray(0, 4))
    reset.socket.resetAndDestroy()
    await once(half.socket, 'close')
  }
  expect(await talk(await openSocket(port), 1, 20)).toBe(20)
})

/** Answers each message with this many bytes. */
async function listenLarge(bytes: number, server: Partial<ServerOptions> = {}) {
  const functions = file(
    'large.mjs',
    `export default { env: { relay: (context) => context.store(new Uint8Array(${bytes})) } }`,
  )
  const route = { plugin: guest('relay'), contract: 'websocket', functions, outputLimit: bytes } as const
  return listen(route, server)
}

test('a client that reads nothing and sends all the time is disconnected', async () => {
  const { port } = await listenLarge(2 ** 20, { unreadTimeoutMs: 200 })
  const { client, socket } = await openRawSocket(port)
  socket.pause().on('error', () => undefined) // a reset is a way of closing
  for (let count = 0; count < 40; count++) client.send(frame(TEXT, 'a'))
  const sending = setInterval(() => socket.writable && client.send(frame(PONG, 'a')), 20)
  onTestFinished(() => clearInterval(sending))
  await new Promise((resolve) => socket.once('close', resolve))
})

test('a client that reads slowly gets all before the end of a connection', async () => {
  const limits = { bodyLimit: 2 ** 25, outputLimit: 2 ** 25, streamBuffer: 2 ** 25 }
  const { port } = await listen({ ...SOCKET, ...limits, function: 'first', workers: 1 })
  const { socket, next, closed } = await openSocket(port)
  const message = Buffer.alloc(2 ** 24, 'a') // more than all buffers between the ends
  socket.pause()
  await new Promise((resolve) => socket.send(message, resolve))
  await new Promise((resolve) => setTimeout(resolve, 3_000)) // longer than a closing handshake may take
  socket.resume()
  expect((await next())?.length).toBe(message.length)
  expect(await closed).toEqual([1000, ''])
})

test('several processes serve connections behind one port, and end them at SIGTERM', async () => {
  const server = await startProcesses([guest('echo'), '--contract', 'websocket', '--processes', '2'])
  const port = Number(new URL(server.url).port)
  const connections = await Promise.all(Array.from({ length: 20 }, () => openSocket(port)))
  const right = await Promise.all(connections.map((connection, id) => talk(connection, id, 50)))
  expect(right.filter((count) => count !== 50)).toEqual([])
  server.kill('SIGTERM')
  const ends = await Promise.all(connections.map(({ closed }) => closed))
  expect(ends).toEqual(connections.map(() => [1001, '']))
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
})

test('without the package a server says how to install it, and serves routes of other contracts', async () => {
  const hooks = `export const resolve = (name, context, next) => {
    if (name !== '@fastify/websocket') return next(name, context)
    throw Object.assign(new Error("Cannot find package '@fastify/websocket'"), { code: 'ERR_MODULE_NOT_FOUND' })
  }`
  const url = JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)
  const missing = file('no-websocket.mjs', `import { register } from 'node:module'; register(${url})`)
  const env = { NODE_OPTIONS: `--import ${missing}` }
  const { code, stderr } = await run([guest('echo'), '0', '--contract', 'websocket'], env)
  expect(code).not.toBe(0)
  expect(stderr).toMatch(/npm install @fastify\/websocket[\s\S]*WASM_SERVE_PACKAGE_MISSING/)
  const other = await start([guest('echo'), '0'], env).listening()
  expect(await (await fetch(other, { method: 'POST', body: 'a' })).text()).toBe('a')
})

test('over TLS with HTTP/2 a client connects over HTTP/1.1', async () => {
  const { cert, key } = selfSigned('localhost')
  const tls = { cert: file('ws-cert.pem', cert), key: file('ws-key.pem', key) }
  const running = start([
    ...[guest('echo'), '0', '--contract', 'websocket', '--http2'],
    ...['--tls-cert', tls.cert, '--tls-key', tls.key],
  ])
  const url = await running.listening()
  const { default: WebSocket } = await import('ws')
  const socket = new WebSocket(url.replace('https', 'wss'), [], { rejectUnauthorized: false })
  onTestFinished(() => socket.terminate())
  await once(socket, 'open')
  socket.send('a')
  expect(String((await once(socket, 'message'))[0])).toBe('a')
})

describeWith(['chromium'], () => {
  test('a page in a browser talks to a guest', async () => {
    const { url } = await listen({ ...ECHO, websocketOrigins: ['null'] })
    const { page } = await openPage(url)
    const answers = await page.evaluate(
      async (address) => {
        const socket = new WebSocket(address)
        const message = () =>
          new Promise((resolve) =>
            socket.addEventListener('message', ({ data }) => resolve(data), { once: true }),
          )
        await new Promise((resolve) => socket.addEventListener('open', resolve))
        socket.send('Ada')
        const text = await message()
        socket.send(Uint8Array.of(1, 2))
        const bytes = await message()
        const ended = new Promise((resolve) => socket.addEventListener('close', resolve))
        socket.close(4000, 'bye')
        const { code, wasClean } = (await ended) as CloseEvent
        return [text, bytes instanceof Blob && bytes.size, code, wasClean]
      },
      url.replace('http', 'ws'),
    )
    expect(answers).toEqual(['Ada', 2, 4000, true])
  })
})
