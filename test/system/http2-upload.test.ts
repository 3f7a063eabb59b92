import { once } from 'node:events'
import { request } from 'node:https'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { answerTo, begin, openHttp2 } from '../support/http2-client.ts'
import {
  DATA,
  END_STREAM,
  frame,
  HEADERS,
  openFrames,
  preface,
  requestHead,
} from '../support/http2-frames.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { openLongWay } from '../support/long-way.ts'
import { listenAll } from '../support/serve.ts'
import { serveSteps } from '../support/stream-guest.ts'

const { ca, tls } = localhostTls()

async function timeOf(run: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await run()
  return performance.now() - start
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return isOpen
}

test('an upload over a long way takes about as long as over HTTP/1.1', async () => {
  const echo = { plugin: guest('echo'), bodyLimit: 2 ** 23 }
  const running = await listenAll([echo], { tls, http2: true })
  onTestFinished(() => running.drain())
  const { port } = await openLongWay(running.port, { delayMs: 30 })
  const body = Buffer.alloc(2 ** 22) // 64 windows of Node's default
  const http1 = await timeOf(async () => {
    const options = { port, host: '127.0.0.1', servername: 'localhost', ca, agent: false, method: 'POST' }
    const [answer] = await once(request(options).end(body), 'response')
    answer.destroy()
  })
  const http2 = await timeOf(async () => {
    const session = await openHttp2(port, ca)
    await once(begin(session).end(body), 'response')
  })
  expect(http2).toBeLessThan(4 * http1)
})

test('a body that its guest does not read is held back at 1 MiB and the buffer of the stream', async () => {
  const steps = [
    ['read', 10],
    ['wait', 600_000],
  ] as const
  const { port, codes } = await serveSteps(steps, { bodyLimit: 0 }, { tls, http2: true })
  const client = await openFrames(port, ca, preface(), requestHead(1))
  let sent = 0
  const upload = async () => {
    for (;;) sent += await client.upload(1, 16_384)
  }
  upload().catch(() => undefined) // until the connection is closed
  expect(await codes(1)).toEqual([10])
  for (let before = -1; before !== sent; ) {
    before = sent
    await new Promise((resolve) => setTimeout(resolve, 200)) // until nothing changes
  }
  expect(sent).toBeGreaterThanOrEqual(2 ** 20)
  expect(sent).toBeLessThan(2 ** 20 + 2 ** 19)
})

test('a connection is closed when it is idle after a stream that was silent for longer', async () => {
  const steps = [['start', ''], ['flush'], ['wait', 500], ['write', 'end']] as const
  const limits = { headersTimeoutMs: 100, keepAliveTimeoutMs: 100 }
  const { port } = await serveSteps(steps, {}, { tls, http2: true, ...limits })
  const session = await openHttp2(port, ca)
  const closed = once(session, 'close')
  expect((await answerTo(begin(session, { ':method': 'GET' }).end())).body).toBe('end')
  await closed
})

test('requests that arrive together on the last connection of a server that ends are all answered', async () => {
  const running = await listenAll([{ plugin: guest('echo') }], { tls, http2: true, graceMs: 20_000 })
  const way = await openLongWay(running.port, { holdAfter: 1 })
  const streams = [1, 3, 5, 7]
  const requests = streams.flatMap((id) => [requestHead(id), frame(DATA, END_STREAM, id)])
  const opening = openFrames(way.port, ca, preface(), ...requests)
  await way.answered // the handshake has begun
  const ended = running.drain()
  while (await isListening(running.port)) await new Promise(setImmediate)
  way.release()
  const client = await opening
  for (const stream of streams)
    await client.frame(({ stream: id, type }) => id === stream && type === HEADERS)
  await ended
})
