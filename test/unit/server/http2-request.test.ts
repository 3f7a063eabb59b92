import { once } from 'node:events'
import { createServer, type Http2ServerRequest } from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { Http2Request } from '../../../src/server/http2-request.ts'
import { DATA, END_STREAM, frame, PING, preface, requestHead } from '../../support/http2-frames.ts'

/** Sends a body in frames of this size to a request that is read when all but the last frame have arrived. */
async function bodyIn(frameBytes: number, body: Buffer) {
  const server = createServer({ Http2ServerRequest: Http2Request })
  server.on('sessionError', () => undefined)
  const requested: Promise<[Http2ServerRequest]> = once(server, 'request') as Promise<[Http2ServerRequest]>
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
    server.close()
  })
  const frames = Array.from({ length: body.length / frameBytes }, (_, at) =>
    frame(DATA, 0, 1, body.subarray(at * frameBytes, (at + 1) * frameBytes)),
  )
  const mark = Buffer.from('arrived!')
  socket.write(Buffer.concat([preface(), requestHead(1), ...frames, frame(PING, 0, 0, mark)]))
  let received = Buffer.alloc(0)
  while (!received.includes(mark)) received = Buffer.concat([received, (await once(socket, 'data'))[0]])
  const [request] = await requested
  socket.write(frame(DATA, END_STREAM, 1))
  const pieces: Buffer[] = []
  await once(
    request.on('data', (piece: Buffer) => pieces.push(piece)),
    'end',
  )
  return { pieces: pieces.length, body: Buffer.concat(pieces) }
}

test('small frames of a body that nobody reads are joined: each would take more memory than its bytes', async () => {
  const body = Buffer.from(Array.from({ length: 60_000 }, (_, at) => at % 251))
  const small = await bodyIn(1, body)
  expect(small.body.equals(body)).toBe(true)
  expect(small.pieces).toBeLessThan(60_000 / 100)
  const large = await bodyIn(6_000, body)
  expect(large.body.equals(body)).toBe(true)
})
