import { EventEmitter } from 'node:events'
import { Duplex } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { addHttp2 } from '../../../src/server/http2.ts'
import { preface } from '../../support/http2-frames.ts'
import { keepLog } from '../../support/instance.ts'

const LIMITS = { headersTimeout: 1_000, requestTimeout: 1_000, keepAliveTimeout: 1_000, unreadTimeout: 1_000 }

/** A connection without a network, and what is written to it. */
function socketOf(alpnProtocol: string | false) {
  const written: Buffer[] = []
  const socket = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _, done) => {
      written.push(chunk)
      done()
    },
  })
  onTestFinished(() => void socket.destroy())
  return Object.assign(socket, { alpnProtocol, written })
}

test('a connection belongs to HTTP/2 if it has negotiated that, and else to HTTP/1.1, once', async () => {
  const server = new EventEmitter()
  const http1: unknown[] = []
  server.on('secureConnection', (socket) => http1.push(socket))
  addHttp2(server as never, () => undefined, LIMITS, keepLog() as never)
  const others = [socketOf('http/1.1'), socketOf(false)]
  const socket = socketOf('h2')
  for (const each of [...others, socket]) server.emit('secureConnection', each)
  expect(http1).toEqual(others)
  socket.push(preface())
  await expect.poll(() => Buffer.concat(socket.written).subarray(3, 5)).toEqual(Buffer.of(4, 0)) // SETTINGS
  expect(others.flatMap(({ written }) => written)).toEqual([])
})
