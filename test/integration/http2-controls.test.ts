import { constants } from 'node:http2'
import { expect, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { frame, GOAWAY, openFrames, PING, preface, requestHead, SETTINGS } from '../support/http2-frames.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listen } from '../support/serve.ts'

const { ca, tls } = localhostTls()

/** Frames that are sent before the client waits until they have been read. */
const PIECE = 500

test.each([
  ['PING', frame(PING, 0, 0, Buffer.alloc(8))],
  ['SETTINGS', frame(SETTINGS, 0, 0, Buffer.of(0, 4, 0, 0, 255, 255))],
  ['GOAWAY', frame(GOAWAY, 0, 0, Buffer.alloc(8))],
])('a client that sends %s without end is told to calm down, and disconnected', async (_what, each) => {
  const { port } = await listen({ plugin: guest('echo') }, { tls, http2: true })
  const client = await openFrames(port, ca, preface(), requestHead(1))
  const closed = new Promise<true>((resolve) => client.socket.once('close', () => resolve(true)))
  let isClosed = false
  for (let piece = 0; !isClosed && piece < 200; piece++) {
    const mark = Buffer.alloc(8, piece + 1)
    client.send(...Array.from({ length: PIECE }, () => each), frame(PING, 0, 0, mark))
    const read = client.frame(({ type, payload }) => type === PING && payload.equals(mark))
    isClosed = await Promise.race([closed, read.then(() => false).catch(() => closed)])
  }
  expect(isClosed).toBe(true)
  const codes = client.frames
    .filter(({ type }) => type === GOAWAY)
    .map(({ payload }) => payload.readUInt32BE(4))
  expect(codes).toContain(constants.NGHTTP2_ENHANCE_YOUR_CALM)
})
