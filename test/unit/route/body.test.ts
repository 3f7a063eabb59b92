import { once } from 'node:events'
import { IncomingMessage, request as send } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type ByteSource, ChunkedBytes, joinBytes } from '../../../src/platform/chunks.ts'
import { processPartials } from '../../../src/platform/partial-bytes.ts'
import { readRequestBody } from '../../../src/route/body.ts'
import { sendAndClose, sendBody } from '../../../src/route/error-response.ts'
import { BodyReader } from '../../../src/route/streams/body-reader.ts'

const PIECES = 10_000

/** A request whose body begins to arrive in pieces of one byte. */
function begin() {
  const request = new IncomingMessage(new Socket())
  request.headers['transfer-encoding'] = 'chunked'
  const body = new Promise<ByteSource>((resolve, reject) =>
    readRequestBody(request, 2 * PIECES, (error, bytes) => (error ? reject(error) : resolve(bytes))),
  )
  for (let at = 0; at < PIECES; at++) request.push(Buffer.of(at & 255))
  return { request, body }
}

test('a body of pieces of one byte takes little more memory than its bytes', async () => {
  const { request, body } = begin()
  request.push(null)
  const read = await body
  expect(read instanceof ChunkedBytes && read.list.length).toBe(1)
  expect(joinBytes(read).every((byte, at) => byte === (at & 255))).toBe(true)
  expect(processPartials.bytes).toBe(0)
})

test.each([
  [3, undefined],
  [4, 'WASM_SERVE_BODY_TOO_LARGE'],
])('of a body without a declared length, %i bytes with a limit of 3: %s', async (bytes, code) => {
  const request = new IncomingMessage(new Socket())
  request.headers['transfer-encoding'] = 'chunked'
  const body = new Promise((resolve) => readRequestBody(request, 3, resolve))
  request.push(Buffer.alloc(bytes))
  request.push(null)
  expect(await body).toEqual(code && expect.objectContaining({ code }))
})

test('the end of a client whose body has arrived makes no error', async () => {
  const { request, body } = begin()
  const made = vi.spyOn(Error, 'captureStackTrace')
  const closed = once(request, 'close')
  request.push(null)
  await Promise.all([body, closed])
  expect(made).not.toHaveBeenCalled()
  made.mockRestore()
})

test('such a body is read in many turns of the event loop', async () => {
  const { request, body } = begin()
  let turns = 0
  let isOver = false
  const turn = () => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  request.push(null)
  await body
  isOver = true
  expect(turns).toBeGreaterThan(PIECES / 2_048)
})

test('what has arrived of a body counts until its client is gone', async () => {
  const { request, body } = begin()
  request.once('data', () => request.destroy())
  await expect(body).rejects.toMatchObject({ code: 'WASM_SERVE_BAD_REQUEST' })
  expect(processPartials.bytes).toBe(0)
})

test('and so is one that a guest streams', async () => {
  const request = new IncomingMessage(new Socket())
  request.headers['transfer-encoding'] = 'chunked'
  const reader = new BodyReader(request, 0, 1_048_576)
  for (let at = 0; at < PIECES; at++) request.push(Buffer.of(at & 255))
  request.push(null)
  let turns = 0
  for (let bytes = 0; bytes < PIECES; turns++) {
    bytes += reader.take(PIECES)?.length ?? 0
    await new Promise(setImmediate)
  }
  expect(turns).toBeGreaterThan(PIECES / 2_048)
})

test('a client that is still sending its body gets an answer whose length it knows', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.post('/', () => undefined)
  app.addHook('onRequest', (_, reply) => sendBody(Buffer.from('hello'), reply.header('connection', 'close')))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const sent = send({ port, host: '127.0.0.1', method: 'POST', headers: { 'content-length': 10 } })
  sent.write('hel')
  const [answer]: IncomingMessage[] = await once(sent, 'response')
  expect(answer?.headers).toMatchObject({ 'content-length': '5', connection: 'close' })
  sent.end('lo again'.slice(0, 7))
  expect(answer && (await text(answer))).toBe('hello')
})

test('a client that has sent its body gets the end of the answer at once', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.post('/', (_, reply) => {
    reply.hijack().raw.writeHead(200, { 'content-length': 5, connection: 'close' })
    sendAndClose(reply.raw, Buffer.from('hello'))
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  expect(await (await fetch(url, { method: 'POST', body: 'all of it' })).text()).toBe('hello')
})

test('the hooks of an app see the answer to a client that has sent its body', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  const seen = vi.fn()
  app.addHook('onSend', async () => seen())
  app.post('/', (_, reply) => sendBody(Buffer.from('hello'), reply.header('connection', 'close')))
  expect((await app.inject({ method: 'POST', url: '/', payload: {} })).body).toBe('hello')
  expect(seen).toHaveBeenCalledTimes(1)
})
