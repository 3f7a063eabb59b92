import { constants } from 'node:http2'
import { versions } from 'node:process'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ServerOptions } from '../../src/options/options.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { ask, openHttp2 } from '../support/http2-client.ts'
import {
  DATA,
  END_STREAM,
  type Frame,
  type FrameClient,
  frame,
  GOAWAY,
  HEADERS,
  openFrames,
  PING,
  preface,
  RST_STREAM,
  requestHead,
  reset,
  SETTINGS,
  windowUpdate,
} from '../support/http2-frames.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'
import { open, post } from '../support/socket.ts'
import { streamGuest } from '../support/stream-guest.ts'

/* Clients that send what no client needs to send, or read nothing. */

const { ca, tls } = localhostTls()

const PRIORITY = 2
const CONTINUATION = 9
const END_HEADERS = 4
const CALM = constants.NGHTTP2_ENHANCE_YOUR_CALM

/** Answers with 1 MiB. */
const LARGE = guestBytes(`(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "large") (result i32)
    (call $output_set (call $alloc (i64.const 1048576)) (i64.const 1048576))
    (i32.const 0)))`)

async function serve(options: Partial<ServerOptions> = {}) {
  const routes = [
    { plugin: guest('echo') },
    { plugin: file('large.wasm', LARGE), url: '/large', method: '*' as const },
  ]
  const running = await listenAll(routes, { tls, http2: true, ...options })
  onTestFinished(() => running.drain())
  return running
}

const bytes32 = (...numbers: number[]) => {
  const bytes = Buffer.alloc(4 * numbers.length)
  for (const [i, number] of numbers.entries()) bytes.writeUInt32BE(number, 4 * i)
  return bytes
}
const many = (count: number, bytes: (i: number) => Uint8Array) =>
  Buffer.concat(Array.from({ length: count }, (_, i) => bytes(i)))
const stream = (i: number) => 2 * i + 1

/** Waits for the code with which the server ends the connection. Node.js closes some without one. */
async function ending(client: FrameClient): Promise<number | 'closed'> {
  return Promise.race([
    goaway(client).catch(() => 'closed' as const),
    new Promise<'closed'>((resolve) => client.socket.once('close', () => setImmediate(resolve, 'closed'))),
  ])
}

async function goaway(client: FrameClient): Promise<number> {
  const { payload } = await client.frame(({ type, payload: bytes }) => type === GOAWAY && bytes[7] !== 0)
  return payload.readUInt32BE(4)
}

/**
 * Sends pieces, each when the server has read the one before, until it ends the connection.
 *
 * @returns how it ends it.
 */
async function flood(port: number, first: Uint8Array, piece: (i: number) => Uint8Array) {
  const client = await openFrames(port, ca, preface(), first)
  const end = ending(client).then((code) => {
    isOver = true
    return code
  })
  let isOver = false
  for (let i = 0; !isOver && i < 20_000; i++) {
    client.send(piece(i), frame(PING, 0, 0, bytes32(7, i)))
    await Promise.race([end, client.frame(isPong(i)).catch(() => end)])
  }
  if (!isOver) throw new Error('the server does not end the connection')
  return end
}

function isPong(i: number) {
  return ({ type, payload }: Frame) => type === PING && payload.equals(bytes32(7, i))
}

async function pong(client: FrameClient, i = 0): Promise<void> {
  client.send(frame(PING, 0, 0, bytes32(7, i)))
  await client.frame(isPong(i))
}

describe('a connection is ended whose client sends without end', () => {
  const head = requestHead(1)
  const setting = frame(SETTINGS, 0, 0, Buffer.concat([Buffer.of(0, 4), bytes32(65_535)]))

  test.each([
    ['PING', () => frame(PING, 0, 0, Buffer.alloc(8))],
    ['SETTINGS', () => setting],
    ['GOAWAY', () => frame(GOAWAY, 0, 0, bytes32(0, 0))],
  ])('%s', async (_what, bytes) => {
    const { port } = await serve()
    expect(await flood(port, head, () => many(500, bytes))).toBe(CALM)
    expect((await ask(await openHttp2(port, ca), 'hi')).body).toBe('hi')
  })

  // Node.js 24 ignores PRIORITY.
  test.runIf(Number(versions.node.split('.')[0]) < 24).each([
    ['no request', 3],
    ['a request', 1],
  ])('PRIORITY of %s', async (_what, id) => {
    const { port } = await serve()
    const bytes = many(500, () => frame(PRIORITY, 0, id, Buffer.alloc(5)))
    expect(await flood(port, head, () => bytes)).toBe(CALM)
  })

  // By limits of Node.js and nghttp2.
  test('empty DATA', async () => {
    const { port } = await serve()
    expect(await flood(port, head, () => many(500, () => frame(DATA, 0, 1)))).not.toBe(0)
  })

  test.each([
    ['CONTINUATION', Buffer.of(0, 1, 97, 1, 97)],
    ['empty CONTINUATION', Buffer.alloc(0)],
  ])('%s', async (_what, piece) => {
    const { port } = await serve()
    const begin = frame(HEADERS, 0, 1, head.subarray(9))
    const client = await openFrames(
      port,
      ca,
      preface(),
      begin,
      many(40, () => frame(CONTINUATION, 0, 1, piece)),
    )
    expect(await ending(client)).not.toBe(0)
  })

  test('requests with resets that name no error', async () => {
    const { port } = await serve()
    const piece = (at: number) =>
      many(90, (i) => Buffer.concat([requestHead(stream(90 * at + i)), reset(stream(90 * at + i), 0)]))
    expect(await flood(port, Buffer.alloc(0), piece)).toBe(CALM)
  })

  // Requests that the server resets, or has to. (CVE-2025-8671)
  test.each([
    ['increments of 0', (id: number) => windowUpdate(id, 0)],
    ['windows that are too large', (id: number) => windowUpdate(id, 2 ** 31 - 1)],
    ['resets', (id: number) => reset(id)],
    ['bodies after their end', (id: number) => many(2, () => frame(DATA, END_STREAM, id))],
    ['PRIORITY of wrong size', (id: number) => frame(PRIORITY, 0, id, Buffer.alloc(4))],
    ['trailers with a wrong name', (id: number) => frame(HEADERS, 5, id, Buffer.of(0, 1, 65, 1, 97))],
  ])('requests with %s', async (_what, after) => {
    const { port } = await serve()
    const piece = (at: number) =>
      many(90, (i) => Buffer.concat([requestHead(stream(90 * at + i)), after(stream(90 * at + i))]))
    expect(await flood(port, Buffer.alloc(0), piece)).not.toBe(0)
    expect((await ask(await openHttp2(port, ca), 'hi')).body).toBe('hi')
  })
})

test('a client may send many PINGs, updates of windows, and frames of unknown types', async () => {
  const { port } = await serve()
  const client = await openFrames(port, ca, preface())
  for (let i = 0; i < 3; i++) {
    client.send(many(500, () => frame(PING, 0, 0, Buffer.alloc(8))))
    client.send(many(5_000, () => windowUpdate(0, 1)))
    client.send(many(1_000, () => frame(0x4f, 0, 0))) // Node.js 24 ends the connection at 10,000
    await pong(client, i)
  }
})

describe('a head that is larger than its bytes, by references to the table of its connection,', () => {
  const indexed = (name: string, value: string) => {
    const long = value.length < 127 ? Buffer.of(value.length) : lengthOf(value.length)
    return Buffer.concat([Buffer.of(0x40, name.length), Buffer.from(name), long, Buffer.from(value)])
  }
  const head = (id: number, headers: Uint8Array) =>
    frame(HEADERS, END_HEADERS | END_STREAM, id, Buffer.concat([requestHead(id).subarray(9), headers]))

  test.each([
    ['of many headers', 'a', 12_000, 'reset'],
    ['of long headers', 'a'.repeat(4_000), 50, 'reset'],
    ['of headers beyond 16 KiB', 'a'.repeat(4_000), 5, 431],
  ])('%s is not decoded, or refused', async (_what, value, count, expected) => {
    const { port } = await serve()
    const client = await openFrames(port, ca, preface(), head(1, indexed('a', value)))
    await client.frame(({ type, flags }) => type === SETTINGS && flags === 0)
    await pong(client) // its limits hold when the client has confirmed them
    client.send(head(3, Buffer.alloc(count, 0x80 | 62)))
    if (expected === 'reset') {
      const { payload } = await client.frame(({ type, stream: id }) => type === RST_STREAM && id === 3)
      expect(payload.readUInt32BE(0)).toBe(CALM)
    } else {
      await client.frame(({ type, stream: id }) => type === HEADERS && id === 3)
      await client.frame(({ payload }) => payload.includes('WASM_SERVE_HEADERS_TOO_LARGE'))
    }
    await pong(client, 1)
  })
})

/** A number of 128 to 16,510 with a prefix of 7 bits. (RFC 7541, section 5.1) */
function lengthOf(number: number): Buffer {
  const rest = number - 127
  return Buffer.of(127, (rest & 127) | 128, rest >> 7)
}

describe('of the connections that take too much memory, the one that takes most is ended', () => {
  const limit = { maxUnreadBytes: 20 * 2 ** 20 }
  const get = (id: number) => {
    const head = requestHead(id, { ':path': '/large', ':method': 'GET' })
    return frame(HEADERS, END_HEADERS | END_STREAM, id, head.subarray(9))
  }

  test.each([
    ['by a window of 0', preface(0)],
    ['by not reading from the socket', Buffer.concat([preface(2 ** 31 - 1), windowUpdate(0, 2 ** 30)])],
  ])('that does not read its answers %s', async (_what, first) => {
    const { port } = await serve(limit)
    const modest = await openFrames(port, ca, preface(0), get(1))
    const greedy = await openFrames(port, ca, first)
    if (_what.includes('socket')) greedy.socket.pause()
    const closed = new Promise((resolve) => greedy.socket.once('close', resolve))
    greedy.send(many(100, (i) => get(stream(i))))
    if (_what.includes('socket')) setTimeout(() => greedy.socket.resume(), 2_000)
    else expect(await ending(greedy)).toBe(CALM)
    await closed
    modest.send(windowUpdate(1, 2 ** 21), windowUpdate(0, 2 ** 21))
    await modest.frame(
      ({ stream: id, type, flags }) => id === 1 && type === DATA && (flags & END_STREAM) !== 0,
    )
  })

  test('that begins requests of many headers and does not go on', async () => {
    const { port } = await serve({ maxUnreadBytes: 2 * 2 ** 20 })
    const modest = await openFrames(port, ca, preface(), requestHead(1))
    const first = frame(
      HEADERS,
      END_HEADERS,
      1,
      Buffer.concat([requestHead(1).subarray(9), Buffer.of(0x40, 1, 97, 0)]),
    )
    const others = many(50, (i) =>
      frame(
        HEADERS,
        END_HEADERS,
        stream(i + 1),
        Buffer.concat([requestHead(1).subarray(9), Buffer.alloc(1_900, 0x80 | 62)]),
      ),
    )
    const greedy = await openFrames(port, ca, preface(), first)
    greedy.send(others)
    expect(await ending(greedy)).toBe(CALM)
    modest.send(frame(DATA, END_STREAM, 1, Buffer.from('hi')))
    await modest.frame(({ type, payload }) => type === DATA && payload.toString() === 'hi')
  })

  test('over HTTP/1.1, with pipelined requests', async () => {
    const routes = [
      { plugin: guest('echo') },
      { plugin: file('large.wasm', LARGE), url: '/large', method: '*' as const },
    ]
    const running = await listenAll(routes, limit)
    onTestFinished(() => running.drain())
    const modest = await open(running.port)
    const greedy = await open(running.port)
    greedy.socket.pause()
    const closed = new Promise((resolve) => greedy.socket.once('close', resolve))
    greedy.send('GET /large HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(200))
    setTimeout(() => greedy.socket.resume(), 2_000)
    await closed
    modest.send(post('hi'))
    expect(String((await modest.answer())?.body)).toBe('hi')
  })
})

test('a client that announces its end while it sends has the whole answer that came early', async () => {
  const steps = [['start', ''], ['write', 'begin'], ['flush'], ['wait', 200], ['write', 'end']] as const
  const plugin = file('early.wasm', streamGuest(...steps))
  const running = await listenAll([{ plugin, bodyLimit: 0, workers: 1, spareWorkers: 0 }], {
    tls,
    http2: true,
  })
  onTestFinished(() => running.drain())
  const client = await openFrames(running.port, ca, preface(), requestHead(1))
  await client.upload(1, 50_000)
  await client.frame(({ type }) => type === DATA)
  client.send(frame(GOAWAY, 0, 0, bytes32(0, 0)))
  await client.upload(1, 10_000)
  await client.frame(({ type, flags }) => type === DATA && (flags & END_STREAM) !== 0)
  expect(client.story(1).slice(0, 3)).toEqual(['HEADERS', 'DATA', 'END_STREAM'])
})
