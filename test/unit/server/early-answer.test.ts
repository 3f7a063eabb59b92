import { once } from 'node:events'
import { connect, createServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { endEarly, isUnwanted, stopClient } from '../../../src/server/early-answer.ts'

/** A client whose request is answered before its body has arrived. */
async function answerEarly(method: string) {
  const server = createServer()
  const asked = once(server, 'request') as Promise<[Http2ServerRequest, Http2ServerResponse]>
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  const stream = client.request({ ':method': method }, { endStream: false })
  stream.on('error', () => undefined) // it is reset
  const [request, response] = await asked
  response.end('answer')
  endEarly(request)
  return { stream, request }
}

test('a client that sends too much after its answer is not read any more, and told to stop', async () => {
  const { stream, request } = await answerEarly('POST')
  const reset = once(request.stream, 'close')
  const piece = Buffer.alloc(2 ** 20)
  let sent = 0
  while (!isUnwanted(request.stream)) {
    if (sent < 18 * piece.length && stream.writableLength < piece.length) {
      stream.write(piece)
      sent += piece.length
    }
    await new Promise(setImmediate)
  }
  expect(request.readableFlowing).toBe(false)
  expect(sent).toBeGreaterThan(2 ** 24)
  await reset
  expect(request.stream.rstCode).toBe(0) // NO_ERROR: the answer is complete (RFC 9113, section 8.1)
})

test('a client that sends its whole body may do so', async () => {
  const { stream, request } = await answerEarly('POST')
  const ended = once(request, 'end')
  stream.end(Buffer.alloc(100_000))
  await ended
  expect([request.complete, isUnwanted(request.stream)]).toEqual([true, false])
})

test('a body of HEAD is not waited for, and the answer is not broken off', async () => {
  const { stream, request } = await answerEarly('HEAD')
  expect(isUnwanted(request.stream)).toBe(true)
  const [headers] = await once(stream, 'response')
  expect(headers[':status']).toBe(200)
  stopClient(request.stream)
  expect(request.stream.rstCode).toBe(0)
})
