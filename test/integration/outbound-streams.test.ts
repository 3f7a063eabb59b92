import { createHash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { GuestStreamRequest } from '../../src/guest/outbound/guest-request.ts'
import type { Outbound } from '../../src/guest/outbound/outbound.ts'
import type { OutboundStream, StreamLimits } from '../../src/guest/outbound/outbound-stream.ts'
import { failureOf, open, sendInterim, serveHttp, serveRaw } from '../support/outbound.ts'

/** Opens a stream with a buffer of 64 KiB; closed when the test ends. */
function begin(
  outbound: Outbound,
  url: string,
  request: Partial<GuestStreamRequest> = {},
  limits: Partial<StreamLimits> = {},
): OutboundStream {
  const stream = outbound.open(
    { url, method: 'GET', headers: {}, length: undefined, followsRedirects: true, ...request },
    { bufferBytes: 65_536, idleMs: 10_000, timeoutMs: 20_000, ...limits },
  )
  onTestFinished(() => stream.close())
  return stream
}

/** Reads the rest of a response. */
async function rest(stream: OutboundStream): Promise<string> {
  let text = ''
  for (;;) {
    const piece = await stream.read(65_536)
    if (piece.length === 0) return text
    text += Buffer.from(piece)
  }
}

const bytes = (text: string) => new Uint8Array(Buffer.from(text))

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request) text += piece
  return text
}

// Bodies.

test('a body goes up and a response comes down piece by piece', async () => {
  const { url } = await serveHttp(async (request, response) => {
    const framing = request.headers['transfer-encoding']
    response.writeHead(201, { 'x-a': 'b' }).end(`${request.method} ${framing} ${await textOf(request)}`)
  })
  const stream = begin(open(), url, { method: 'POST' })
  expect([await stream.write(bytes('one ')), await stream.write(bytes('two'))]).toEqual(['taken', 'taken'])
  expect((await stream.response()).status).toBe(201)
  expect(Buffer.from(await stream.read(4)).toString()).toBe('POST')
  expect(await rest(stream)).toBe(' chunked one two')
  expect(await stream.done).toBe(201)
  expect(await stream.write(bytes('late'))).toBe('refused')
})

test.each([
  ['GET', 'undefined undefined'],
  ['HEAD', ''],
  ['DELETE', 'undefined undefined'],
  ['POST', 'undefined 0'],
])('%s without a body has none', async (method, framing) => {
  const { url } = await serveHttp(({ headers }, response) =>
    response.end(`${headers['transfer-encoding']} ${headers['content-length']}`),
  )
  const stream = begin(open(), url, { method })
  expect(await stream.write(new Uint8Array())).toBe('taken')
  expect(await rest(stream)).toBe(framing)
})

test('a body of a known length has a Content-Length, also with DELETE', async () => {
  const { url } = await serveHttp(async (request, response) => {
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers
    response.end(`${length} ${coding} ${await textOf(request)}`)
  })
  const known = begin(open(), url, { method: 'DELETE', length: 3 })
  await known.write(bytes('abc'))
  expect(await rest(known)).toBe('3 undefined abc')
  const unknown = begin(open(), url, { method: 'DELETE' })
  await unknown.write(bytes('abc'))
  expect(await rest(unknown)).toBe('undefined chunked abc')
})

test.each([
  ['longer', 'abcd', false],
  ['shorter', 'ab', true],
])('a body that is %s than announced fails, and its connection is closed', async (_what, body, isEnded) => {
  const origin = await serveHttp((request) => void request.resume())
  const stream = begin(open(), origin.url, { method: 'PUT', length: 3 })
  await stream.write(bytes('a'))
  const failure = await failureOf(
    (async () => {
      await stream.write(bytes(body.slice(1)))
      if (isEnded) await stream.write(new Uint8Array())
    })(),
  )
  expect(failure.code).toBe('WASM_SERVE_OUTBOUND_REQUEST_INVALID')
  await origin.allClosed()
  expect((await failureOf(stream.read(1))).code).toBe('WASM_SERVE_OUTBOUND_REQUEST_INVALID')
})

test('a server that answers while it reads is served in both directions', async () => {
  const { url } = await serveHttp((request, response) => void request.pipe(response))
  const stream = begin(open({ responseMax: 100_000_000 }), url, { method: 'POST' })
  const [sent, received] = [createHash('sha256'), createHash('sha256')]
  for (let at = 0; at < 320; at++) {
    const piece = new Uint8Array(Buffer.alloc(65_536, `${at};`))
    sent.update(piece)
    while ((await stream.write(piece)) === 'read first') received.update(await stream.read(65_536))
  }
  await stream.write(new Uint8Array())
  for (let piece = await stream.read(65_536); piece.length > 0; piece = await stream.read(65_536))
    received.update(piece)
  expect(received.digest('hex')).toBe(sent.digest('hex'))
})

test('a guest that does not read is not sent more than the buffers hold, and cannot send more', async () => {
  const { url } = await serveHttp((request, response) => void request.pipe(response))
  const stream = begin(open({ responseMax: 100_000_000 }), url, { method: 'POST' })
  let taken = 0
  while ((await stream.write(new Uint8Array(65_536))) === 'taken') taken++
  expect(taken).toBeLessThan(500) // the buffers of the system hold several MiB
})

test('a server that answers without reading the body does not stop the guest', async () => {
  const origin = await serveHttp((_request, response) => {
    response.writeHead(413).end('too much')
  })
  const stream = begin(open(), origin.url, { method: 'POST' })
  while ((await stream.write(new Uint8Array(16_384))) !== 'read first') await new Promise(setImmediate)
  expect([(await stream.response()).status, await rest(stream)]).toEqual([413, 'too much'])
  expect(await stream.write(new Uint8Array(16_384))).toBe('read first')
  await origin.allClosed()
})

test('a server that does not read makes the guest wait, up to the time limit', async () => {
  const { url } = await serveHttp(() => undefined)
  const stream = begin(open(), url, { method: 'POST' }, { idleMs: 100 })
  let taken = 0
  const failure = await failureOf(
    (async () => {
      for (;;) {
        await stream.write(new Uint8Array(65_536))
        taken++
      }
    })(),
  )
  expect(failure.code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
  expect(taken).toBeLessThan(500)
  expect((await failureOf(stream.response())).code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
})

test('a server that takes a piece slowly is not silent', async () => {
  const { url } = await serveRaw((socket) => {
    socket.on('data', () => {
      socket.pause()
      setTimeout(() => socket.resume(), 5)
    })
  })
  const stream = begin(open(), url, { method: 'POST' }, { idleMs: 500 })
  const since = performance.now()
  await stream.write(new Uint8Array(14 * 1_048_576)) // more than the system buffers
  expect(await stream.write(bytes('next'))).toBe('taken')
  expect(performance.now() - since).toBeGreaterThan(500)
})

test('a server that sends only interim responses is silent', async () => {
  const { url } = await serveRaw((socket) => {
    const timer = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 10)
    socket.on('close', () => clearInterval(timer))
  })
  const failure = await failureOf(begin(open(), url, {}, { idleMs: 100 }).response())
  expect(failure.code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
})

test.each(['GET', 'POST'])('interim responses without end fail a %s at their limit', async (method) => {
  const origin = await serveRaw((socket) => socket.once('data', () => sendInterim(socket)))
  const stream = begin(open(), origin.url, { method })
  const failure = await failureOf(stream.response())
  expect(failure.code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect(failure.message).toContain('only interim responses')
  await origin.allClosed()
})

// Ends.

test.each([
  ['ends', (socket: Socket) => socket.end()],
  ['is reset', (socket: Socket) => socket.resetAndDestroy()],
])('what arrived before a connection %s can be read, then it fails', async (_what, breakOff) => {
  const sockets = new EventEmitter()
  const { url } = await serveRaw((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf')
    sockets.once('break', () => breakOff(socket))
  })
  const stream = begin(open(), url)
  await stream.response()
  expect(Buffer.from(await stream.read(9)).toString()).toBe('half')
  sockets.emit('break')
  expect((await failureOf(stream.read(9))).code).toBe('WASM_SERVE_OUTBOUND_FAILED')
  expect((await failureOf(stream.done)).code).toBe('WASM_SERVE_OUTBOUND_FAILED')
})

test('no server, and no HTTP, are failures', async () => {
  const { url } = await serveRaw((socket) => void socket.end('hello\r\n'))
  for (const target of [url, 'http://origin.test:1/'])
    expect((await failureOf(begin(open(), target).response())).code).toBe('WASM_SERVE_OUTBOUND_FAILED')
})

test('a response beyond the limit fails: at its head if it is announced, else where the limit is', async () => {
  const { url } = await serveHttp((request, response) => {
    if (request.url === '/announced') response.setHeader('content-length', 2_000)
    response.end('x'.repeat(2_000))
  })
  const outbound = open({ responseMax: 1_000 })
  const announced = begin(outbound, `${url}/announced`)
  expect((await failureOf(announced.response())).code).toBe('WASM_SERVE_OUTBOUND_TOO_LARGE')
  const streamed = begin(outbound, url)
  expect((await failureOf(rest(streamed))).code).toBe('WASM_SERVE_OUTBOUND_TOO_LARGE')
  const head = begin(outbound, `${url}/announced`, { method: 'HEAD' })
  expect(await rest(head)).toBe('')
  const unlimited = begin(open({ responseMax: 1_000, streamMax: Number.POSITIVE_INFINITY }), url)
  expect(await rest(unlimited)).toHaveLength(2_000)
})

test('a whole exchange has a time limit, and so has a silent server', async () => {
  const { url } = await serveHttp((_request, response) => void response.write('a'))
  const outbound = open()
  for (const limits of [{ timeoutMs: 50 }, { idleMs: 50 }])
    expect((await failureOf(rest(begin(outbound, url, {}, limits)))).code).toBe('WASM_SERVE_OUTBOUND_TIMEOUT')
})

test('closing a stream closes its connection, unless the exchange is complete', async () => {
  const origin = await serveHttp((request, response) => {
    if (request.url === '/slow') response.write('a')
    else response.end('a')
  })
  const outbound = open()
  for (let i = 0; i < 3; i++) {
    const complete = begin(outbound, origin.url)
    await rest(complete)
    complete.close()
  }
  expect(origin.accepted).toBe(1)
  const slow = begin(outbound, `${origin.url}/slow`)
  await slow.read(1)
  slow.close()
  await origin.allClosed()
  expect([await slow.done, (await failureOf(slow.read(1))).code]).toEqual([200, 'WASM_SERVE_OUTBOUND_FAILED'])
})

test('closing the route ends its streams', async () => {
  const origin = await serveHttp((_request, response) => void response.write('a'))
  const outbound = open()
  const stream = begin(outbound, origin.url)
  await stream.read(1)
  const failure = failureOf(stream.read(1))
  await outbound.close()
  expect((await failure).code).toBe('WASM_SERVE_ENGINE_CLOSED')
  await origin.allClosed()
  expect(() => begin(outbound, origin.url)).toThrow(
    expect.objectContaining({ code: 'WASM_SERVE_ENGINE_CLOSED' }),
  )
})

test('a kept connection that was just closed is replaced, if nothing was sent that matters', async () => {
  let requests = 0
  const origin = await serveRaw((socket) => {
    socket.on('data', () => {
      if (++requests === 2) socket.destroy()
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na')
    })
  })
  const outbound = open()
  expect(await rest(begin(outbound, origin.url))).toBe('a')
  expect(await rest(begin(outbound, origin.url))).toBe('a')
  expect([origin.accepted, requests]).toEqual([2, 3])
})

// Checks.

test.each([
  'http://else.test/',
  'ftp://origin.test/',
  'http://user:secret@origin.test/',
])('%s is refused at once', async (url) => {
  expect(() => begin(open(), url)).toThrow(expect.objectContaining({ code: 'WASM_SERVE_OUTBOUND_REFUSED' }))
})

test('a name of a private address is refused when it is resolved', async () => {
  const origin = await serveHttp((_request, response) => void response.end())
  const outbound = open({ allowedHosts: ['*'] })
  const refused = { code: 'WASM_SERVE_OUTBOUND_REFUSED' }
  expect(await failureOf(begin(outbound, origin.url).response())).toMatchObject(refused)
  const post = begin(outbound, origin.url, { method: 'POST' })
  await post.write(bytes('a'))
  expect(await failureOf(post.response())).toMatchObject(refused)
  expect(() => begin(outbound, `http://127.0.0.1:${origin.port}/`)).toThrow(expect.objectContaining(refused))
  expect(origin.accepted).toBe(0)
})

test('a GET with a length is not valid', () => {
  expect(() => begin(open(), 'http://origin.test/', { length: 1 })).toThrow(
    expect.objectContaining({ code: 'WASM_SERVE_OUTBOUND_REQUEST_INVALID' }),
  )
})

// Redirects.

/** `/302/place` leads to this place; all other paths answer with the request. */
async function serveRedirects() {
  return serveHttp(async (request, response) => {
    const [, status = '', place] = /^\/(30\d)\/(.*)$/.exec(request.url ?? '') ?? []
    if (place === undefined) response.end(`${request.method} ${request.url} ${await textOf(request)}`)
    else response.writeHead(Number(status), { location: place }).end('moved')
  })
}

test('redirects without a body are followed, and each is checked', async () => {
  const { url } = await serveRedirects()
  const outbound = open()
  expect(await rest(begin(outbound, `${url}/302/${url}/there`))).toBe('GET /there ')
  const refused = begin(outbound, `${url}/302/http://else.test/`)
  expect((await failureOf(refused.response())).code).toBe('WASM_SERVE_OUTBOUND_REFUSED')
  const many = begin(outbound, `${url}/302/${`${url}/302/`.repeat(6)}`)
  expect((await failureOf(many.response())).code).toBe('WASM_SERVE_OUTBOUND_FAILED')
})

test('a guest can get the redirects themselves, also those to no valid place', async () => {
  const { url } = await serveRedirects()
  for (const place of ['/there', 'http://']) {
    const stream = begin(open(), `${url}/302/${place}`, { followsRedirects: false })
    expect([(await stream.response()).status, await rest(stream)]).toEqual([302, 'moved'])
  }
})

test.each([
  [303, 'PUT', 'GET /there '],
  [302, 'POST', 'GET /there '],
  [307, 'POST', 'moved'],
  [302, 'PUT', 'moved'],
])('a body is never sent twice: %i after %s', async (status, method, expected) => {
  const { url } = await serveRedirects()
  const stream = begin(open(), `${url}/${status}//there`, { method })
  await stream.write(bytes('secret'))
  await stream.write(new Uint8Array())
  expect((await stream.response()).status).toBe(expected === 'moved' ? status : 200)
  expect(await rest(stream)).toBe(expected)
})

test('after a redirect to a GET the rest of a body is dropped', async () => {
  const { url } = await serveRedirects()
  const stream = begin(open(), `${url}/303//there`, { method: 'POST' })
  await stream.write(bytes('a'))
  while ((await stream.write(new Uint8Array(65_536))) === 'taken') await new Promise(setImmediate)
  expect(await rest(stream)).toBe('GET /there ')
})
