import { once } from 'node:events'
import { type ClientHttp2Session, constants, type SecureClientSessionOptions } from 'node:http2'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../../src/options/options.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { createApp } from '../../src/server/app.ts'
import { guest } from '../support/guest.ts'
import { begin, openHttp2 } from '../support/http2-client.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'

const { ca, tls } = localhostTls()
const HTTP2 = { tls, http2: true }
const GET = { ':method': 'GET' }

async function openSteps(
  steps: readonly Step[],
  route: Partial<RouteOptions> = {},
  client: SecureClientSessionOptions = {},
) {
  const server = await serveSteps(steps, route, HTTP2)
  return { ...server, session: await openHttp2(server.port, ca, client) }
}

async function openEcho(server: Partial<ServerOptions> = {}) {
  const echo = { plugin: guest('stream'), function: 'echo', bodyLimit: 0, outputLimit: 0, workers: 2 }
  const running = await listenAll([echo], { ...HTTP2, ...server })
  onTestFinished(() => running.drain())
  return { ...running, session: await openHttp2(running.port, ca) }
}

/** Returns when all that the server has sent so far has arrived. */
function pass(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve, reject) =>
    session.ping((error) => {
      if (error) reject(error)
      else resolve()
    }),
  )
}

/** Waits until a number stays as it is. */
async function settled(count: () => number | Promise<number>): Promise<number> {
  for (let before = await count(); ; ) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    const now = await count()
    if (now === before) return now
    before = now
  }
}

test('a client with a window of 0 gets no bytes and stops the guest, until it opens the window', async () => {
  const steps: Step[] = [['start', ''], { repeat: 40, steps: [['write zeros', 65_536]] }]
  const { session, codes } = await openSteps(
    steps,
    { outputLimit: 0 },
    { settings: { initialWindowSize: 0 } },
  )
  const stream = begin(session, GET).end()
  let received = 0
  stream.on('data', ({ length }: Buffer) => {
    received += length
  })
  await once(stream, 'response')
  expect(await settled(async () => (await codes()).length)).toBeLessThan(10)
  await pass(session)
  expect(received).toBe(0)
  session.settings({ initialWindowSize: 65_535 })
  await once(stream, 'end')
  expect([received, (await codes(41)).length]).toEqual([40 * 65_536, 41])
})

test('a client that reads none of its streams may begin others, up to the maximum of its connection', async () => {
  const { session, codes } = await openSteps(
    [['start', ''], { repeat: 10, steps: [['write zeros', 65_536]] }],
    { outputLimit: 0, workers: suspending ? 1 : 90 },
  )
  for (let count = 1; count <= 90; count++) {
    const stream = begin(session, GET).end()
    const ended = once(stream, 'close').then(() => [{}])
    const [{ ':status': status }] = await Promise.race([once(stream, 'response'), ended])
    expect([count, status]).toEqual([count, 200])
    if (count % 10 === 0) await settled(async () => (await codes()).length)
  }
})

test('a guest that does not read stops its client, by flow control', async () => {
  const { session, codes } = await openSteps(
    [
      ['read', 10],
      ['wait', 600_000],
    ],
    { bodyLimit: 0 },
  )
  const stream = begin(session)
  const bytes = 8 * 2 ** 20
  let left = 0
  for (let sent = 0; sent < bytes; sent += 65_536)
    stream.write(Buffer.alloc(65_536), (error) => {
      if (!error) left += 65_536
    })
  expect(await codes(1)).toEqual([10])
  expect(await settled(() => left)).toBeLessThan(2 ** 20)
  stream.close(constants.NGHTTP2_CANCEL)
  expect(await codes(2)).toEqual([10, -1])
})

test('a client that cancels its upload ends the read, and other streams of the connection go on', async () => {
  const { session } = await openEcho()
  const [cancelled, other] = [begin(session), begin(session)]
  for (const stream of [cancelled, other]) {
    stream.write('one')
    expect(String((await once(stream, 'data'))[0])).toBe('one')
  }
  const closed = once(cancelled, 'close')
  cancelled.close(constants.NGHTTP2_CANCEL)
  await closed
  const next = begin(session) // a thread is free again: there are two
  next.end('three')
  expect(await text(next)).toBe('three')
  other.end('two')
  expect(await text(other)).toBe('two')
})

test('a body that is shorter than its length ends the read', async () => {
  const { session, codes } = await openSteps([
    ['read', 10],
    ['read', 10],
  ])
  const stream = begin(session, { 'content-length': '9' })
  stream.write('half')
  expect(await codes(1)).toEqual([4])
  stream.end()
  expect(await codes(2)).toEqual([4, -1])
})

test('trailers of a request end its body', async () => {
  const { session } = await openEcho()
  const stream = session.request({ ':method': 'POST', ':path': '/' }, { waitForTrailers: true })
  stream.once('wantTrailers', () => stream.sendTrailers({ 'x-sum': '1' }))
  stream.end('body')
  expect(await text(stream)).toBe('body')
})

test('a client that announces its end with GOAWAY gets the rest of its stream', async () => {
  const { session } = await openEcho()
  const stream = begin(session)
  stream.write('one')
  expect(String((await once(stream, 'data'))[0])).toBe('one')
  session.goaway()
  stream.end('two')
  expect(await text(stream)).toBe('two')
})

test('a server that ends announces it with GOAWAY and lets a stream come to its end', async () => {
  const { session, drain } = await openEcho({ graceMs: 20_000 })
  const stream = begin(session)
  stream.write('one')
  expect(String((await once(stream, 'data'))[0])).toBe('one')
  const announced = once(session, 'goaway')
  const drained = drain()
  expect((await announced)[0]).toBe(constants.NGHTTP2_NO_ERROR)
  stream.end('two')
  expect(await text(stream)).toBe('two')
  await drained
})

test('a stream that outlives the grace period of a server that ends is broken off', async () => {
  const { session, drain } = await openSteps([['start', ''], ['write', 'half'], ['flush'], ['wait', 600_000]])
  const stream = begin(session, GET).end()
  expect(String((await once(stream, 'data'))[0])).toBe('half')
  const closed = new Promise((resolve) => stream.once('close', resolve))
  await drain()
  await closed
  expect(stream.rstCode).not.toBe(constants.NGHTTP2_NO_ERROR)
})

test('a stream that outlives many apps ends well, and no listeners pile up', async () => {
  const warnings: Error[] = []
  const note = (warning: Error) => void warnings.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const { session, replace } = await openEcho()
  const stream = begin(session)
  stream.write('before')
  expect(String((await once(stream, 'data'))[0])).toBe('before')
  const options = checkServerOptions({ logLevel: 'silent', stallMs: 0, routes: [{ plugin: guest('echo') }] })
  const replaced: Promise<void>[] = []
  for (let i = 0; i < 12; i++) replaced.push(replace((await createApp(options, openLog('silent'))).app))
  stream.end('after')
  expect(await text(stream)).toBe('after')
  await Promise.all(replaced)
  expect(warnings).toEqual([])
})
