import { expect, test } from 'vitest'
import { GuestStream } from '../../../src/guest/streams/guest-stream.ts'
import {
  callStream,
  connectStream,
  PIECE_BYTES,
  type StreamClient,
  type StreamExchange,
} from '../../../src/guest/streams/stream-protocol.ts'
import { keepLog } from '../../support/instance.ts'

const DONE = { answer: undefined } as const
const encode = (text: string) => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes)

/** An exchange that notes what is asked, and answers `write` with this. */
function exchangeWith(written: ReturnType<NonNullable<StreamExchange['write']>>) {
  const seen: string[] = []
  const host = {}
  connectStream(host, {
    write(bytes) {
      seen.push(`write ${decode(bytes)}`)
      return written
    },
    read(max) {
      seen.push(`read ${max}`)
      return { answer: encode('piece') }
    },
  })
  return { seen, caller: { host, log: keepLog() } }
}

test.each([
  ['at once', DONE],
  ['later', Promise.resolve(DONE)],
])('what was written is sent before the operation that brings it (%s)', async (_when, reply) => {
  const { seen, caller } = exchangeWith(reply)
  expect(await callStream('read', [7], caller, encode('a'))).toEqual({ answer: encode('piece') })
  expect(seen).toEqual(['write a', 'read 7'])
})

test('an operation does not run if what was written cannot be sent', async () => {
  const { seen, caller } = exchangeWith({ problem: 'gone' })
  expect(await callStream('read', [7], caller, encode('a'))).toEqual({ problem: 'gone' })
  expect(seen).toEqual(['write a'])
})

test('an operation without an exchange, or that it does not have, is unavailable', async () => {
  const { seen, caller } = exchangeWith(DONE)
  expect(await callStream('read', [7], undefined)).toEqual({ problem: 'unavailable' })
  expect(await callStream('read', [7], { ...caller, host: {} })).toEqual({ problem: 'unavailable' })
  expect(await callStream('wait', [7], caller)).toEqual({ problem: 'unavailable' })
  expect(await callStream('httpRead', [1, 7], caller)).toEqual({ problem: 'unavailable' })
  expect(seen).toEqual([])
})

/** A stream whose answer has begun, and the operations that it asks for. */
function openStream(piece = new Uint8Array(PIECE_BYTES)) {
  const asked: { operation: string; written: Uint8Array | undefined; args: readonly unknown[] }[] = []
  const answers: Record<string, unknown> = { read: piece }
  const client = {
    call(operation: string, written: Uint8Array | undefined, ...args: readonly unknown[]) {
      asked.push({ operation, written, args })
      return { answer: answers[operation] }
    },
  }
  const stream = new GuestStream(client as StreamClient)
  stream.begin()
  stream.start(encode(''))
  asked.length = 0
  return { stream, asked }
}

test('small writes wait for the next read, which brings them along', () => {
  const { stream, asked } = openStream()
  stream.write(encode('a'))
  stream.write(encode('b'))
  expect(asked).toEqual([])
  stream.read(10, 5)
  expect(asked.map(({ operation, written, args }) => [operation, decode(written), args[0]])).toEqual([
    ['read', 'ab', 5],
  ])
})

test('what waits stays as it is when the buffer grows', () => {
  const { stream, asked } = openStream()
  stream.write(encode('first '))
  stream.write(encode('x'.repeat(20_000)))
  stream.flush()
  expect(asked.map(({ args: [bytes] }) => decode(bytes as Uint8Array))).toEqual([
    `first ${'x'.repeat(20_000)}`,
  ])
})

test('a write of more than a piece is sent as far as it fills pieces', () => {
  const { stream, asked } = openStream()
  stream.write(new Uint8Array(PIECE_BYTES * 2 + 1))
  expect(asked.map(({ args: [bytes] }) => (bytes as Uint8Array).length)).toEqual([PIECE_BYTES, PIECE_BYTES])
  stream.flush()
  expect((asked[2]?.args[0] as Uint8Array).length).toBe(1)
})

test('the memory of a piece goes back with the next read, unless a write needs it', () => {
  const { stream, asked } = openStream()
  const piece = new Uint8Array(PIECE_BYTES)
  stream.reuse(piece.subarray(0, 9))
  stream.read(10, 10)
  expect((asked[0]?.args[1] as Uint8Array).buffer).toBe(piece.buffer)
  stream.reuse(piece.subarray(0, 9))
  stream.write(new Uint8Array(PIECE_BYTES))
  stream.read(10, 10)
  expect([asked[1]?.written?.buffer === piece.buffer, asked[1]?.args[1]]).toEqual([true, undefined])
})

test('what was sent is not written to again', () => {
  const { stream, asked } = openStream()
  stream.write(encode('first'))
  stream.flush()
  stream.write(encode('other'))
  stream.flush()
  expect(asked.map(({ args: [bytes] }) => decode(bytes as Uint8Array))).toEqual(['first', 'other'])
})

test('nothing is written after the trailers, and a call begins anew', () => {
  const { stream, asked } = openStream()
  expect(stream.trailers(encode('{}'))).toEqual(DONE)
  expect([stream.write(encode('late')), stream.trailers(encode('{}'))]).toEqual([
    { problem: 'order' },
    { problem: 'order' },
  ])
  stream.begin()
  expect(stream.write(encode('early'))).toEqual({ problem: 'order' })
  expect(asked.map(({ operation }) => operation)).toEqual(['trailers'])
})
