import { once } from 'node:events'
import websocket from '@fastify/websocket'
import Fastify from 'fastify'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { CallRefusedError, createServer, type RouteOptions, wasmServe } from '../../src/index.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Meters } from '../../src/observe/metrics.ts'
import { checkServerOptions, type ServerOptions } from '../../src/options/options.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { RoutePool } from '../../src/route/route-pool.ts'
import { createApp } from '../../src/server/app.ts'
import { startServer } from '../../src/server/server.ts'
import { start as startCommand } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { listen, listenAll } from '../support/serve.ts'
import { open } from '../support/socket.ts'
import { streamGuest } from '../support/stream-guest.ts'
import {
  BINARY,
  CLOSE,
  closingOf,
  frame,
  HANDSHAKE,
  openRawSocket,
  openSocket,
  PING,
  PONG,
  TEXT,
} from '../support/web-socket.ts'

const ECHO = { plugin: guest('echo'), contract: 'websocket' } as const
const MOODY = { plugin: guest('moody'), contract: 'websocket', spareWorkers: 0 } as const
const SOCKET = { plugin: guest('socket'), contract: 'websocket', workers: 1, spareWorkers: 0 } as const
const LASTING = { plugin: streamGuest(['start', ''], ['wait', 600_000]), method: 'GET' } as const

test('each message is answered by one of its kind, in order, and an empty output by none', async () => {
  const { port } = await listen(ECHO)
  const { socket, next } = await openSocket(port)
  for (const message of ['a', Buffer.from('b'), '', 'ü', Buffer.from([255])]) socket.send(message)
  expect([await next(), await next(), await next(), await next()]).toEqual([
    'a',
    Buffer.from('b'),
    'ü',
    Buffer.from([255]),
  ])
})

test('an answer to a text that is not UTF-8 is binary', async () => {
  const text = `(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output (param i64 i64)))
    (func (export "f") (result i32) (local $at i64)
      (local.set $at (call $alloc (i64.const 1)))
      (call $store (local.get $at) (i32.const 255))
      (call $output (local.get $at) (i64.const 1))
      (i32.const 0)))`
  const { port } = await listen({ plugin: guestBytes(text), contract: 'websocket' })
  const { socket, next } = await openSocket(port)
  socket.send('a')
  expect(await next()).toEqual(Buffer.from([255]))
})

test('connections at the same time get their own answers, with threads too', async () => {
  const { port } = await listen({ ...ECHO, workers: 2 })
  const connections = await Promise.all(Array.from({ length: 20 }, () => openSocket(port)))
  await Promise.all(
    connections.map(async ({ socket, next }, index) => {
      const messages = Array.from({ length: 50 }, (_, number) => `${index} ${number}`)
      for (const message of messages) socket.send(message)
      for (const message of messages) expect(await next()).toBe(message)
    }),
  )
})

test('a request that is no handshake gets 426, and methods other than GET 405', async () => {
  const { url } = await listen(ECHO)
  const answer = await fetch(url)
  expect([answer.status, answer.headers.get('upgrade'), (await answer.json()).code]).toEqual([
    426,
    'websocket',
    'WASM_SERVE_UPGRADE_REQUIRED',
  ])
  const others = await Promise.all(['POST', 'HEAD'].map((method) => fetch(url, { method })))
  expect(others.map(({ status, headers }) => [status, headers.get('allow')])).toEqual([
    [405, 'GET'],
    [405, 'GET'],
  ])
})

test('a handshake goes through the checks of the server', async () => {
  const { port } = await listen(ECHO, { apiKeys: ['0123456789abcdef'] })
  await expect(openSocket(port)).rejects.toThrow('status 401')
  const { socket, next } = await openSocket(port, '/', { headers: { 'x-api-key': '0123456789abcdef' } })
  socket.send('a')
  expect(await next()).toBe('a')
})

test('the connection of a refused handshake ends', async () => {
  const { port } = await listen(ECHO)
  const client = await open(port)
  client.send(HANDSHAKE.replace('GET /', 'GET /unknown'))
  expect((await client.answers()).map(({ status }) => status)).toEqual([404])
})

test.each([
  [undefined, {}, 101],
  ['http://127.0.0.1', {}, 403],
  ['http://evil.example', {}, 403],
  ['null', {}, 403],
  ['https://app.example', { websocketOrigins: ['https://app.example'] }, 101],
  ['null', { websocketOrigins: ['*'] }, 101],
])('origin %s with %j: %d', async (origin, route, status) => {
  const { port } = await listen({ ...ECHO, ...route })
  const client = await open(port)
  const line = origin === undefined ? '' : `Origin: ${origin}\r\n`
  client.send(HANDSHAKE.replace('\r\n\r\n', `\r\n${line}\r\n`))
  expect((await client.answer())?.status).toBe(status)
})

test('a page of the same host may connect', async () => {
  const { port } = await listen(ECHO)
  const { socket, next } = await openSocket(port, '/', { origin: `http://127.0.0.1:${port}` })
  socket.send('a')
  expect(await next()).toBe('a')
})

test('no more connections than websocketMax are open', async () => {
  const { port } = await listen({ ...ECHO, websocketMax: 1 })
  const { socket, closed } = await openSocket(port)
  await expect(openSocket(port)).rejects.toThrow('status 503')
  socket.close()
  await closed
  const again = await openSocket(port)
  again.socket.send('a')
  expect(await again.next()).toBe('a')
})

test('the first known subprotocol of the client is chosen', async () => {
  const { port } = await listen({ ...ECHO, websocketProtocols: ['v1', 'v2'] })
  const { socket } = await openSocket(port, '/', { protocols: ['v0', 'v2', 'v1'] })
  expect(socket.protocol).toBe('v2')
})

test.each([
  ['T', {}, 1011, 'WASM_SERVE_GUEST_TRAP'],
  ['E', {}, 1011, 'WASM_SERVE_GUEST_ERROR'],
  ['L', { workers: 1, timeoutMs: 30 }, 1011, 'WASM_SERVE_DEADLINE_EXCEEDED'],
  ['abc', { outputLimit: 2 }, 1011, 'WASM_SERVE_OUTPUT_TOO_LARGE'],
  ['abc', { bodyLimit: 2 }, 1009, ''],
])('after the message %s with %j the connection ends with %d %s', async (message, route, code, reason) => {
  const { port } = await listen({ ...MOODY, ...route })
  const { socket, closed } = await openSocket(port)
  socket.send(message)
  expect(await closed).toEqual([code, reason])
})

test('a hook refuses a call with 1008, and others see it with its handshake', async () => {
  const seen: unknown[] = []
  const route: RouteOptions = {
    ...ECHO,
    onCall({ input, request }) {
      seen.push([request.url, Buffer.from(input).toString()])
      if (input.length > 1) throw new CallRefusedError('too long')
      return Buffer.from(input).map((byte) => byte + 1)
    },
  }
  const { port } = await listen(route)
  const { socket, next, closed } = await openSocket(port, '/?a=1')
  socket.send('a')
  expect(await next()).toBe('b')
  socket.send('ab')
  expect(await closed).toEqual([1008, 'WASM_SERVE_CALL_REFUSED'])
  expect(seen).toEqual([
    ['/?a=1', 'a'],
    ['/?a=1', 'ab'],
  ])
})

test.each([
  ['a text that is not UTF-8', frame(TEXT, Uint8Array.of(0xc3, 0x28)), 1007],
  ['a frame without a mask', frame(TEXT, 'a', false), 1002],
  ['a reserved bit', frame(0xc1, 'a'), 1002],
  ['a reserved opcode', frame(0x83, 'a'), 1002],
  ['a fragmented ping', frame(0x09, 'a'), 1002],
  ['a continuation of nothing', frame(0x80, 'a'), 1002],
  ['a closing frame with one byte', frame(CLOSE, 'a'), 1002],
  ['a length beyond 2^53', Uint8Array.of(TEXT, 255, 255, 0, 0, 0, 0, 0, 0, 0), 1009],
  [
    'a message of too many fragments',
    Buffer.concat([frame(0x01), ...Array.from({ length: 16_384 }, () => frame(0x00))]),
    1008,
  ],
] as const)('%s ends the connection, and is no error of the server', async (_what, bytes, code) => {
  const lines: string[] = []
  const meters = new Meters()
  const { port } = await start(
    ECHO,
    {},
    meters,
    pino({ level: 'warn' }, { write: (line) => void lines.push(line) }),
  )
  const { client, socket, frame: next } = await openRawSocket(port)
  client.send(bytes)
  const closing = await next()
  expect(closing && [closing.opcode, closingOf(closing)[0]]).toEqual([8, code])
  client.send(frame(CLOSE))
  await once(socket, 'close')
  while (meters.all[0]?.sockets.of('closed') === 0) await new Promise(setImmediate)
  expect([meters.all[0]?.sockets.of(`close ${code}`), lines]).toEqual([1, []])
})

test('fragments are joined, and a ping between them is answered', async () => {
  const { port } = await listen(ECHO)
  const { client, frame: next } = await openRawSocket(port)
  client.send(Buffer.concat([frame(0x01, 'a'), frame(PING, 'p'), frame(0x00, 'b'), frame(0x80, 'c')]))
  expect([await next(), await next()]).toEqual([
    { opcode: 10, payload: Buffer.from('p') },
    { opcode: 1, payload: Buffer.from('abc') },
  ])
})

test('messages before a clean end still reach the guest', async () => {
  const calls: string[] = []
  const { port } = await listen({ ...ECHO, onCall: ({ input }) => void calls.push(`${Buffer.from(input)}`) })
  const { client } = await openRawSocket(port)
  client.send(Buffer.concat([...'abc'].map((letter) => frame(BINARY, letter))))
  client.send(frame(CLOSE, Uint8Array.of(3, 232)))
  while (calls.length < 3) await new Promise(setImmediate)
  expect(calls).toEqual(['a', 'b', 'c'])
})

test('a client that does not answer a ping is disconnected, and one that does is not', async () => {
  const { port } = await listen({ ...ECHO, websocketPingMs: 100 })
  const silent = await openRawSocket(port)
  const polite = await openRawSocket(port)
  const pings = async () => {
    for (let count = 0; count < 3; count++) {
      expect((await polite.frame())?.opcode).toBe(9)
      polite.client.send(frame(PONG))
    }
  }
  await Promise.all([once(silent.socket, 'close'), pings()])
  expect(polite.socket.destroyed).toBe(false)
})

test('a connection without messages ends after websocketIdleMs', async () => {
  const { port } = await listen({ ...ECHO, websocketIdleMs: 20 })
  expect(await (await openSocket(port)).closed).toEqual([1001, 'idle'])
})

test('a client that reads nothing is not read, and is disconnected', async () => {
  const meters = new Meters()
  const { port } = await start({ ...ECHO, streamBuffer: 16_384 }, { unreadTimeoutMs: 100 }, meters)
  const { socket } = await openRawSocket(port)
  socket.pause()
  let sent = 0
  const more = () => {
    while (!socket.destroyed && socket.write(frame(BINARY, Buffer.alloc(60_000)))) sent++
  }
  const closed = new Promise((resolve) => socket.on('close', resolve)) // perhaps after an error
  socket.on('drain', more)
  more()
  await closed
  const [counts] = meters.all
  // What the systems of both ends keep is not known here, but bounded.
  expect(counts?.sockets.of('bytesIn')).toBeLessThan(40_000_000)
  expect(sent).toBeLessThan(1_000)
  while (counts?.sockets.of('closed') === 0) await new Promise(setImmediate) // the server may notice it later
  expect(counts?.sockets.of('close 1006')).toBe(1)
})

test('a guest serves a connection: it takes messages, and sends them back', async () => {
  const { port } = await listen({ ...SOCKET, function: 'echo' })
  const { socket, next, closed } = await openSocket(port)
  for (const message of ['a', Buffer.from('b'), 'c'.repeat(200_000)]) socket.send(message)
  expect([await next(), await next(), await next()]).toEqual(['a', Buffer.from('b'), 'c'.repeat(200_000)])
  socket.close(4000, 'x')
  expect(await closed).toEqual([4000, 'x'])
  const second = await openSocket(port) // the thread is free again
  second.socket.send('')
  expect(await second.next()).toBe('')
})

test('the input of such a call is the handshake, and its return closes the connection', async () => {
  const { port } = await listen({ ...SOCKET, function: 'greet', url: '/rooms/:id' })
  const { next, closed } = await openSocket(port, '/rooms/7?a=1')
  expect(JSON.parse(String(await next()))).toMatchObject({
    method: 'GET',
    params: { id: '7' },
    query: { a: '1' },
    headers: { upgrade: 'websocket' },
  })
  expect(await closed).toEqual([1000, ''])
})

test('a guest closes its connection with a code of its own', async () => {
  const { port } = await listen({ ...SOCKET, function: 'close' })
  expect(await (await openSocket(port)).closed).toEqual([4001, 'bye'])
})

test.each([
  ['trap', 'WASM_SERVE_GUEST_TRAP'],
  ['spin', 'WASM_SERVE_DEADLINE_EXCEEDED'],
])('a guest of a connection that fails (%s) ends it with 1011', async (name, reason) => {
  const { port } = await listen({ ...SOCKET, function: name, timeoutMs: 50 })
  const { socket, closed } = await openSocket(port)
  socket.send('a')
  expect(await closed).toEqual([1011, reason])
})

test.skipIf(suspending)(
  'a thread serves one connection: another one waits, and is then closed with 1013',
  async () => {
    const { port } = await listen({ ...SOCKET, function: 'echo', maxWaitMs: 50 })
    const first = await openSocket(port)
    first.socket.send('a')
    expect(await first.next()).toBe('a')
    expect(await (await openSocket(port)).closed).toEqual([1013, 'WASM_SERVE_STREAMS_FULL'])
  },
)

test('a guest that is called for a message can send others, but takes none', async () => {
  const { port } = await listen({ ...SOCKET, function: 'twice', websocketPer: 'message' })
  const { socket, next } = await openSocket(port)
  socket.send('a')
  expect([await next(), await next()]).toEqual([Buffer.from('b'), 'a'])
})

test('a plug-in that takes no messages cannot serve a connection', async () => {
  await expect(listen({ ...ECHO, websocketPer: 'connection' })).rejects.toMatchObject({
    code: 'WASM_SERVE_OPTIONS_INVALID',
  })
})

test.each([
  ['raw', 1],
  ['websocket', 0],
] as const)('a plug-in that takes messages is served with the contract %s, and %i lines say why none come', async (contract, said) => {
  const running = startCommand([guest('socket'), 'echo', '0', '--contract', contract])
  await running.listening()
  running.child.kill('SIGTERM')
  const { stderr } = await running.ended
  expect(stderr.match(/gets messages only with the contract websocket/g) ?? []).toHaveLength(said)
})

test.each([
  [{ method: 'POST' }, 'method'],
  [{ smoke: { status: 200 } }, 'smoke'],
  [{ bodyLimit: 0 }, 'bodyLimit'],
] as const)('the contract excludes %j', async (route, option) => {
  await expect(listen({ ...ECHO, ...route })).rejects.toThrow(`routes[0].${option}: `)
})

test('a change of the route lets the call in progress answer, and then closes the connection', async () => {
  const calls = new EventTarget()
  const onCall = () => void calls.dispatchEvent(new Event('call'))
  const { port, replace } = await listen({ ...MOODY, onCall, workers: 1, timeoutMs: 10_000 })
  const { socket, next, closed } = await openSocket(port)
  socket.send('W')
  socket.send('never run')
  await once(calls, 'call')
  const { app } = await createApp(checkServerOptions({ routes: [MOODY] }), openLog('silent'))
  await Promise.all([replace(app), closed])
  expect([await next(), await next(), await closed]).toEqual(['W', undefined, [1001, '']])
})

test('connections outlive changes of other routes', async () => {
  const { port, replace } = await listenWithPool({ ...ECHO, url: '/echo' }, { plugin: guest('upper') })
  const { socket, next, closed } = await openSocket(port, '/echo')
  await replace(0, 1)
  socket.send('a')
  expect(await next()).toBe('a')
  await replace(1)
  expect(await closed).toEqual([1001, ''])
  await expect(openSocket(port, '/echo')).rejects.toThrow('status')
})

test('a removed route closes its connections while a stream of its app lasts, and may come back', async () => {
  const { port, replace } = await listenWithPool({ ...ECHO, url: '/echo' }, LASTING)
  const { closed } = await openSocket(port, '/echo')
  const { status } = await fetch(`http://localhost:${port}/`)
  await replace(1)
  expect([status, await closed]).toEqual([200, [1001, '']])
  await replace(0, 1)
  const { socket, next } = await openSocket(port, '/echo')
  socket.send('a')
  expect(await next()).toBe('a')
})

/** A server whose apps share a pool. The first one has all routes. @returns `replace`: serves those of these numbers. */
async function listenWithPool(...given: RouteOptions[]) {
  const log = openLog('silent')
  const options = checkServerOptions({ stallMs: 0, port: 0, drainMs: 0, graceMs: 100, routes: given })
  const pool = new RoutePool(options, log)
  const server = await startServer(options, (await createApp(options, log, { pool })).app, log)
  onTestFinished(async () => {
    await server.drain()
    await pool.close()
  })
  return {
    port: Number(new URL(server.url).port),
    async replace(...numbers: readonly number[]) {
      const routes = options.routes.filter((_, number) => numbers.includes(number))
      const { app } = await createApp({ ...options, routes }, log, { pool })
      void server.replace(app) // it answers from now on; the one before ends after its last request
    },
  }
}

test('a server that ends closes its connections with 1001', async () => {
  const running = await listenAll([{ ...SOCKET, function: 'echo' }], { graceMs: 5_000 })
  const { closed } = await openSocket(running.port)
  await Promise.all([running.drain(), closed])
  expect(await closed).toEqual([1001, ''])
})

test('an app of createServer serves them, and closes them when it closes', async () => {
  const app = await createServer({ logLevel: 'silent', stallMs: 0, port: 0, routes: [ECHO] })
  onTestFinished(() => app.close())
  const { socket, next, closed } = await openSocket(Number(new URL(await app.listen()).port))
  socket.send('a')
  expect(await next()).toBe('a')
  await Promise.all([app.close(), closed])
  expect(await closed).toEqual([1001, ''])
})

test('requests of other routes with Upgrade are answered as without it', async () => {
  const running = await listenAll([{ ...ECHO, url: '/ws' }, { plugin: guest('echo') }])
  onTestFinished(() => running.drain())
  const client = await open(running.port)
  const post =
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n'
  for (const body of ['abc', 'def']) {
    client.send(post + body)
    expect(String((await client.answer())?.body)).toBe(body)
  }
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nghi${HANDSHAKE.replace('/', '/ws')}`)
  expect(String((await client.answer())?.body)).toBe('ghi')
  expect((await client.answer())?.status).toBe(101)
})

test('metrics and the access log have what a connection has done', async () => {
  const lines: Record<string, unknown>[] = []
  const log = openLog('info', { lines: { write: (line) => void lines.push(JSON.parse(line)) } })
  const meters = new Meters()
  const { port } = await start(ECHO, { accessLog: true }, meters, log)
  const { socket, next, closed } = await openSocket(port)
  socket.send('abc')
  await next()
  expect(meters.all[0]?.sockets.of('opened')).toBe(1)
  socket.close(1000)
  await closed
  while (!lines.some(({ msg }) => msg === 'request')) await new Promise(setImmediate)
  expect(lines.find(({ msg }) => msg === 'request')).toMatchObject({
    status: 101,
    bytes: 3,
    received: 3,
    receivedMessages: 1,
    sentMessages: 1,
    closeCode: 1000,
  })
  const counts = meters.all[0]?.sockets
  expect(counts?.counted).toEqual([
    ['opened', 1],
    ['closed', 1],
    ['messagesIn', 1],
    ['messagesOut', 1],
    ['bytesIn', 3],
    ['bytesOut', 3],
    ['close 1000', 1],
  ])
})

test.each([
  false,
  true,
])('an app of Fastify serves them too, with the package added before: %s', async (isAdded) => {
  const app = Fastify()
  if (isAdded) await app.register(websocket)
  app.get('/own', () => 'own')
  await app.register(wasmServe, { prefix: '/ws', stallMs: 0, routes: [ECHO] })
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const address = app.server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const { socket, next, closed } = await openSocket(port, '/ws')
  socket.send('a')
  expect(await next()).toBe('a')
  expect(await (await fetch(`http://127.0.0.1:${port}/own`)).text()).toBe('own')
  await Promise.all([app.close(), closed])
  expect([1001, 1005]).toContain((await closed)[0])
})

test.each([
  ['over HTTP/1.0', HANDSHAKE.replace('HTTP/1.1', 'HTTP/1.0'), 426],
  ['with a body', HANDSHAKE.replace('\r\n\r\n', '\r\nContent-Length: 1\r\n\r\na'), 426],
  [
    'with a chunked body',
    HANDSHAKE.replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
    426,
  ],
  ['with two hosts', HANDSHAKE.replace('Host: a', 'Host: a\r\nHost: b'), 400],
  ['without a key', HANDSHAKE.replace('Sec-WebSocket-Key', 'X'), 400],
  ['of another version', HANDSHAKE.replace('Version: 13', 'Version: 8'), 400],
  ['with a malformed protocol', HANDSHAKE.replace('Host: a', 'Host: a\r\nSec-WebSocket-Protocol: a b'), 400],
  ['with a protocol twice', HANDSHAKE.replace('Host: a', 'Host: a\r\nSec-WebSocket-Protocol: a, a'), 400],
])('a handshake %s is refused', async (_what, bytes, status) => {
  const { port } = await listen(ECHO)
  const client = await open(port)
  client.send(bytes)
  const answer = await client.answer()
  expect([answer?.status, answer?.headers['content-type']]).toEqual([status, 'application/problem+json'])
})

async function start(
  route: RouteOptions,
  server: Partial<ServerOptions>,
  meters: Meters,
  log = openLog('silent'),
) {
  const options = checkServerOptions({
    stallMs: 0,
    drainMs: 0,
    graceMs: 100,
    port: 0,
    ...server,
    routes: [route],
  })
  const { app } = await createApp({ ...options, meters }, log)
  const running = await startServer(options, app, log)
  onTestFinished(() => running.drain())
  return { ...running, port: Number(new URL(running.url).port) }
}

test('a handshake passes the hooks of an app once, however often the app has registered the plugin', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  const seen: string[] = []
  app.addHook('onRequest', (request, _reply, done) => {
    seen.push(request.url)
    done()
  })
  for (const prefix of ['/a', '/b']) await app.register(wasmServe, { prefix, stallMs: 0, routes: [ECHO] })
  const port = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port)
  for (const path of ['/a', '/b']) {
    const { socket, next } = await openSocket(port, path)
    socket.send(path)
    expect(await next()).toBe(path)
  }
  await expect(openSocket(port, '/c')).rejects.toThrow('status 404')
  expect(seen).toEqual(['/a', '/b', '/c'])
})
