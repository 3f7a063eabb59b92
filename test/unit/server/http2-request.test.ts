import { once } from 'node:events'
import { createServer, type Http2ServerRequest } from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { Http2Request } from '../../../src/server/http2-request.ts'
import { DATA, END_STREAM, frame, PING, preface, requestHead } from '../../support/http2-frames.ts'

/** A client of a server, and the first request that it gets. */
async function connectTo() {
  const server = createServer({ Http2ServerRequest: Http2Request })
  server.on('sessionError', () => undefined)
  const requested: Promise<[Http2ServerRequest]> = once(server, 'request') as Promise<[Http2ServerRequest]>
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
    server.close()
  })
  return { socket, requested }
}

/** Sends a body in frames of this size to a request that is read when all but the last frame have arrived. */
async function bodyIn(frameBytes: number, body: Buffer) {
  const { socket, requested } = await connectTo()
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

test('of a client that sends small frames, a bounded part is read in a turn of the event loop', async () => {
  const { socket, requested } = await connectTo()
  const count = 80_000
  const frames = Buffer.concat(Array.from({ length: count }, () => frame(DATA, 0, 1, Buffer.of(97))))
  let inTurn = 0
  let most = 0
  let left = count
  const turn = () => {
    most = Math.max(most, inTurn)
    inTurn = 0
    if (left > 0) setImmediate(turn)
  }
  setImmediate(turn)
  socket.write(Buffer.concat([preface(), requestHead(1), frames, frame(DATA, END_STREAM, 1)]))
  const [request] = await requested
  request.on('data', (piece: Buffer) => {
    inTurn += piece.length
    left -= piece.length
  })
  await once(request, 'end')
  expect(left).toBe(0)
  expect(most).toBeLessThanOrEqual(2 * (65_536 / 10))
})
