import { once } from 'node:events'
import { connect } from 'node:tls'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import type { RouteOptions } from '../../src/index.ts'
import type { ServerOptions } from '../../src/options/options.ts'
import { processPartials } from '../../src/platform/partial-bytes.ts'
import { selfSigned } from '../support/certificate.ts'
import { file, guest } from '../support/guest.ts'
import { listen, listenAll } from '../support/serve.ts'
import { open } from '../support/socket.ts'
import {
  BINARY,
  CLOSE,
  closingOf,
  type Frame,
  frame,
  HANDSHAKE,
  openRawSocket,
  openSocket,
  PING,
  PONG,
  type RawSocket,
  TEXT,
} from '../support/web-socket.ts'

/* Clients that send what no client needs to send, or begin messages and do not go on. */

afterEach(() => processPartials.limit(2 ** 28))

const ECHO = { plugin: guest('echo'), contract: 'websocket' } as const
/** So long that a handshake arrives in time. */
const LATE_MS = 600

const START = 0x01 // a text of which more follows
const MORE = 0x00
const LAST = 0x80

/** The code and the reason with which the server closes, after frames of other kinds. */
async function ending({
  frame: next,
}: Pick<RawSocket, 'frame'>): Promise<readonly [number, string] | undefined> {
  for (let got: Frame | undefined = await next(); got; got = await next())
    if (got.opcode === 8) return closingOf(got)
  return undefined
}

/** Waits until the connection is closed or reset. */
async function closed({ socket }: RawSocket): Promise<void> {
  if (!socket.destroyed) await new Promise((resolve) => socket.once('close', resolve))
}

const many = (bytes: Buffer, count: number) => Buffer.concat(Array.from({ length: count }, () => bytes))

test('of many pings that arrive together the newest is answered', async () => {
  const { port } = await listen(ECHO)
  const { client, frame: next } = await openRawSocket(port)
  const pings = Array.from({ length: 100 }, (_, at) => frame(PING, `${at}`))
  client.send(Buffer.concat([...pings, frame(TEXT, 'a')]))
  const got: string[] = []
  for (let answer = await next(); answer?.opcode === 10; answer = await next()) got.push(`${answer.payload}`)
  expect(got.at(-1)).toBe('99')
  expect(got.length).toBeLessThan(10)
})

test.each([
  ['pings', frame(PING, 'a')],
  ['pongs', frame(PONG, 'a')],
  ['pings within a message', Buffer.concat([frame(PING, 'a'), frame(MORE, 'a')])],
])('a client that sends %s without end is disconnected, and one that sends many is not', async (_what, bytes) => {
  const { port } = await listen(ECHO)
  const polite = await openRawSocket(port)
  const flood = await openRawSocket(port)
  flood.client.send(Buffer.concat([frame(START), many(bytes, 1_500)]))
  expect(await ending(flood)).toEqual([1008, 'WASM_SERVE_CONTROL_FRAMES_EXCEEDED'])
  polite.client.send(Buffer.concat([frame(START), many(bytes, 900), frame(LAST, 'end')]))
  for (;;) {
    const answer = await polite.frame()
    if (answer?.opcode === 10) continue
    expect(answer?.opcode).toBe(1)
    expect(String(answer?.payload)).toMatch(/end$/)
    break
  }
})

test('answers to pings of the server count for nothing', async () => {
  const { port } = await listen({ ...ECHO, websocketPingMs: 50 })
  const { client, frame: next } = await openRawSocket(port)
  const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now()) // the client gets no new pings
  onTestFinished(() => now.mockRestore())
  client.send(many(frame(PONG), 995)) // nearly all
  for (let count = 0; count < 10; count++) {
    expect((await next())?.opcode).toBe(9)
    client.send(frame(PONG))
  }
  client.send(frame(TEXT, 'a'))
  let answer = await next()
  while (answer?.opcode === 9) answer = await next()
  expect(answer).toEqual({ opcode: 1, payload: Buffer.from('a') })
})

test('what a client sends after it was disconnected for a flood is not read', async () => {
  const { port, sockets } = await listenWithSockets()
  const flood = await openRawSocket(port)
  flood.client.send(frame(TEXT, 'a'))
  await flood.frame()
  flood.client.send(many(frame(PING, 'a'), 1_500))
  expect((await ending(flood))?.[0]).toBe(1008)
  const before = sockets[0]?.bytesRead ?? 0
  const end = closed(flood)
  flood.client.send(many(frame(PING, 'a'), 300_000))
  await end
  expect((sockets[0]?.bytesRead ?? 0) - before).toBeLessThanOrEqual(4 * 65_536)
})

/** A server, and its side of the connection of each call. */
async function listenWithSockets(route: Partial<RouteOptions> = {}) {
  const sockets: { readonly bytesRead: number }[] = []
  const onCall: RouteOptions['onCall'] = ({ request }) => void sockets.push(request.raw.socket)
  return { ...(await listen({ ...ECHO, ...route, onCall })), sockets }
}

test.each([
  ['the first byte of a message', Buffer.of(TEXT)],
  ['the head of a message', frame(TEXT, 'abc').subarray(0, 3)],
  ['a part of a binary message', frame(BINARY, 'abc').subarray(0, 7)],
  ['the first fragment of a message', frame(START, 'abc')],
  ['an empty fragment', frame(START)],
  ['half a message after a whole one', Buffer.concat([frame(TEXT, 'a'), frame(TEXT, 'abc').subarray(0, 7)])],
])('a client that sends %s, and pings, is disconnected in time; one that waits between messages is not', async (_what, bytes) => {
  const { port } = await listen(ECHO, { requestTimeoutMs: LATE_MS })
  const idle = await openRawSocket(port)
  idle.client.send(Buffer.concat([frame(START, 'a'), frame(LAST, 'b'), frame(PING, 'a').subarray(0, 3)]))
  const half = await openRawSocket(port)
  half.client.send(bytes)
  const isWithin = bytes.length === 0 || bytes[0] !== START
  const pinging = setInterval(() => !isWithin && half.socket.writable && half.client.send(frame(PING)), 20)
  onTestFinished(() => clearInterval(pinging))
  expect(await ending(half)).toEqual([1008, 'WASM_SERVE_REQUEST_TIMEOUT'])
  idle.client.send(Buffer.concat([frame(PING, 'a').subarray(3), frame(TEXT, 'c')]))
  const answers = [await idle.frame(), await idle.frame(), await idle.frame()]
  expect(answers.map((answer) => answer && `${answer.opcode} ${answer.payload}`)).toEqual([
    '1 ab',
    '10 a',
    '1 c',
  ])
})

test.each([
  ['bytes', (at: number) => frame(TEXT, 'a'.repeat(100)).subarray(at, at + 1)],
  ['fragments of one byte', (at: number) => frame(at === 0 ? START : MORE, 'a')],
])('a client that sends a message slowly, in %s, is disconnected in time', async (_what, drop) => {
  const { port } = await listen(ECHO, { requestTimeoutMs: LATE_MS })
  const slow = await openRawSocket(port)
  let at = 0
  const dripping = setInterval(() => slow.socket.writable && slow.client.send(drop(at++)), 20)
  onTestFinished(() => clearInterval(dripping))
  expect(await ending(slow)).toEqual([1008, 'WASM_SERVE_REQUEST_TIMEOUT'])
})

test('a connection that is ending answers pings, and half a message does not keep its last call from answering', async () => {
  let go: () => void = () => undefined
  const isBusy = new Promise<void>((resolve) => {
    go = resolve
  })
  const calls = new EventTarget()
  const onCall = () => {
    calls.dispatchEvent(new Event('call'))
    return isBusy
  }
  const { port, drain } = await listenTwo({ ...ECHO, onCall }, { requestTimeoutMs: LATE_MS, graceMs: 10_000 })
  const { client, frame: next } = await openRawSocket(port)
  const clock = await openRawSocket(port, '/other')
  const call = once(calls, 'call')
  client.send(frame(TEXT, 'a'))
  await call
  const end = drain()
  expect(await ending(clock)).toEqual([1001, '']) // so the other one is ending, too
  client.send(Buffer.concat([frame(PING, 'b'), frame(START, 'c')]))
  expect(await next()).toEqual({ opcode: 10, payload: Buffer.from('b') })
  const later = await openRawSocket((await listen(ECHO, { requestTimeoutMs: 2 * LATE_MS })).port)
  later.client.send(frame(START))
  expect((await ending(later))?.[0]).toBe(1008)
  go()
  expect(await next()).toEqual({ opcode: 1, payload: Buffer.from('a') })
  const closing = await next()
  expect(closing && closingOf(closing)).toEqual([1001, ''])
  client.socket.destroy()
  await end
})

test('frames in the packet of the handshake are no half message', async () => {
  const { port } = await listen(ECHO, { requestTimeoutMs: LATE_MS })
  const [early, half] = [await open(port), await openRawSocket(port)]
  early.send(Buffer.concat([Buffer.from(HANDSHAKE), frame(TEXT, 'a'), frame(PING, 'b')]))
  half.client.send(frame(START))
  expect(await ending(half)).toEqual([1008, 'WASM_SERVE_REQUEST_TIMEOUT'])
  const bytes = once(early.socket, 'data')
  early.send(frame(TEXT, 'c'))
  expect((await bytes)[0]).toEqual(frame(TEXT, 'c', false))
})

test('time in which the server does not read is not the time of the client', async () => {
  let go: () => void = () => undefined
  const isBusy = new Promise<void>((resolve) => {
    go = resolve
  })
  const limits = { streamBuffer: 16_384, onCall: () => isBusy }
  const { port } = await listenTwo({ ...ECHO, ...limits }, { requestTimeoutMs: LATE_MS })
  const { client, frame: next } = await openRawSocket(port)
  client.send(Buffer.concat([many(frame(TEXT, 'a'.repeat(200)), 200), frame(START, 'b')]))
  for (let count = 0; count < 3; count++) {
    const clock = await openRawSocket(port, '/other')
    clock.client.send(frame(START))
    expect((await ending(clock))?.[0]).toBe(1008)
  }
  client.send(frame(LAST, 'c'))
  go()
  for (let count = 0; count < 200; count++) expect((await next())?.payload.length).toBe(200)
  expect(await next()).toEqual({ opcode: 1, payload: Buffer.from('bc') })
})

/** The route, and one with the same plug-in at `/other`, without hooks. */
async function listenTwo(route: RouteOptions, server: Partial<ServerOptions>) {
  const running = await listenAll([route, { ...ECHO, url: '/other' }], server)
  onTestFinished(() => running.drain())
  return running
}

test('of messages and bodies that arrive in part, the oldest ends where they take too much together', async () => {
  const running = await listenAll(
    [
      { ...ECHO, url: '/' },
      { plugin: guest('echo'), url: '/post' },
    ],
    {
      maxPartialBytes: 400_000,
    },
  )
  onTestFinished(() => running.drain())
  const { port } = running
  const [first, second] = [await openRawSocket(port), await openRawSocket(port)]
  const post = await open(port)
  post.send(`POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 150001\r\n\r\n${'a'.repeat(150_000)}`)
  await arrived(150_000)
  const part = fragments(150_000)
  first.client.send(part)
  await arrived(300_000)
  second.client.send(part)
  const refused = await post.answer()
  expect([refused?.status, JSON.parse(`${refused?.body}`).code]).toEqual([
    503,
    'WASM_SERVE_PARTIAL_BYTES_FULL',
  ])
  const patient = await openRawSocket(port)
  patient.client.send(many(frame(PING), 1_500))
  await ending(patient)
  const third = await openRawSocket(port)
  third.client.send(part)
  expect(await ending(first)).toEqual([1013, 'WASM_SERVE_PARTIAL_BYTES_FULL'])
  await closed(first) // at once, though the client does not close it
  expect(patient.socket.destroyed).toBe(false)
  for (const { client } of [second, third]) client.send(frame(LAST, 'b'))
  for (const { frame: next } of [second, third]) {
    let answer = await next()
    while (answer?.opcode === 10) answer = await next()
    expect(answer?.payload.length).toBe(150_001)
  }
  const whole = await openSocket(port) // it takes less than the others together, and arrives
  whole.socket.send('a'.repeat(300_000))
  expect((await whole.next())?.length).toBe(300_000)
})

/** The beginning of a message, in fragments of 30,000 bytes. */
function fragments(bytes: number): Buffer {
  const parts = Array.from({ length: bytes / 30_000 }, (_, at) =>
    frame(at === 0 ? START : MORE, 'a'.repeat(30_000)),
  )
  return Buffer.concat(parts)
}

/** Waits until the server has read as much. */
async function arrived(bytes: number): Promise<void> {
  while (processPartials.bytes < bytes) await new Promise(setImmediate)
}

test('a message whose bytes arrive one by one ends the connection before they take much time', async () => {
  const { port } = await listen(ECHO)
  const trickle = await openRawSocket(port)
  trickle.socket.setNoDelay(true).on('error', () => undefined)
  const end = ending(trickle)
  let isOver = false
  void end.then(() => {
    isOver = true
  })
  trickle.client.send(Buffer.of(BINARY, 255, 0, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0))
  for (let sent = 0; !isOver && sent < 100_000; sent++) {
    trickle.client.send('a')
    await new Promise(setImmediate)
  }
  expect(await end).toEqual([1008, ''])
})

test('of a client that sends much, a bounded part is read in a turn of the event loop', async () => {
  const { port, sockets } = await listenWithSockets({ bodyLimit: 2 ** 26, outputLimit: 2 ** 26 })
  const { client, frame: next } = await openRawSocket(port)
  client.send(frame(BINARY, 'a'))
  await next()
  const large = Buffer.alloc(2 ** 22)
  const head = Buffer.alloc(14)
  head.set([BINARY, 255])
  head.writeBigUInt64BE(BigInt(large.length), 2)
  client.send(head)
  client.send(large)
  const [socket] = sockets
  if (!socket) throw new Error('no call')
  let most = 0
  for (let before = socket.bytesRead; sockets.length < 2; ) {
    await new Promise(setImmediate)
    most = Math.max(most, socket.bytesRead - before)
    before = socket.bytesRead
  }
  expect(most).toBeLessThanOrEqual(4 * 65_536)
  expect((await next())?.payload.length).toBe(large.length)
})

test('the limits hold over TLS', async () => {
  const { cert, key } = selfSigned('localhost')
  const tls = { cert: file('floods-cert.pem', cert), key: file('floods-key.pem', key) }
  const { port } = await listen(ECHO, { tls, http2: true, requestTimeoutMs: LATE_MS })
  const ends = async (bytes: Buffer) => {
    const socket = connect({
      port,
      host: '127.0.0.1',
      ca: cert,
      servername: 'localhost',
      ALPNProtocols: ['http/1.1'],
    })
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => undefined)
    let received = Buffer.alloc(0)
    socket.on('data', (data: Buffer) => {
      received = Buffer.concat([received, data])
    })
    await once(socket, 'secureConnect')
    socket.write(HANDSHAKE)
    await once(socket, 'data')
    socket.write(bytes)
    while (!received.includes('WASM_SERVE_')) await once(socket, 'data')
    const at = received.indexOf('WASM_SERVE_') - 4
    return closingOf({ opcode: 8, payload: received.subarray(at + 2) })
  }
  expect(await ends(many(frame(PING, 'a'), 9_000))).toEqual([1008, 'WASM_SERVE_CONTROL_FRAMES_EXCEEDED'])
  expect(await ends(frame(START, 'a'))).toEqual([1008, 'WASM_SERVE_REQUEST_TIMEOUT'])
})

test('a client that is disconnected while it floods closes its side, and nothing of it is left', async () => {
  const { port } = await listen({ ...ECHO, websocketMax: 1 })
  const flood = await openRawSocket(port)
  flood.client.send(many(frame(PING), 1_500))
  expect((await ending(flood))?.[0]).toBe(1008)
  flood.client.send(frame(CLOSE, Uint8Array.of(3, 240)))
  await closed(flood)
  const next = await openSocket(port)
  next.socket.send('a')
  expect(await next.next()).toBe('a')
})
