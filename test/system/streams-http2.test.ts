import { once } from 'node:events'
import { constants } from 'node:http2'
import { buffer, text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import type { RouteOptions } from '../../src/index.ts'
import { guest } from '../support/guest.ts'
import { begin, openHttp2 } from '../support/http2-client.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'

const { ca, tls } = localhostTls()
const HTTP2 = { tls, http2: true }

async function serveEcho(route: Partial<RouteOptions> = {}) {
  const echo = {
    plugin: guest('stream'),
    function: 'echo',
    bodyLimit: 0,
    outputLimit: 0,
    workers: 2,
    ...route,
  }
  const running = await listenAll([echo], HTTP2)
  onTestFinished(() => running.drain())
  return openHttp2(running.port, ca)
}

test('bodies pass in both directions, several on one connection', async () => {
  const session = await serveEcho()
  const bodies = [1, 2, 3, 4].map((id) => Buffer.alloc(1_000_000 * id, `${id};`))
  const answers = bodies.map((body) => buffer(begin(session).end(body)))
  for (const [i, answer] of (await Promise.all(answers)).entries())
    expect(answer.equals(bodies[i] ?? Buffer.of())).toBe(true)
})

test('pieces come back while the client still sends', async () => {
  const stream = begin(await serveEcho())
  stream.write('one')
  await once(stream, 'response')
  expect(String((await once(stream, 'data'))[0])).toBe('one')
  stream.write('two')
  expect(String((await once(stream, 'data'))[0])).toBe('two')
  stream.end()
  expect(await text(stream)).toBe('')
})

async function open(steps: readonly Step[], route: Partial<RouteOptions> = {}) {
  const server = await serveSteps(steps, route, HTTP2)
  return { ...server, session: await openHttp2(server.port, ca) }
}

test('trailers follow the body, and HEAD has none', async () => {
  const { session } = await open([
    ['start', '{"trailers":["x-sum"]}'],
    ['write', 'abc'],
    ['trailers', '{"x-sum":"42"}'],
  ])
  const stream = begin(session, { ':method': 'GET' }).end()
  const trailers = once(stream, 'trailers')
  expect(await text(stream)).toBe('abc')
  expect((await trailers)[0]).toMatchObject({ 'x-sum': '42' })
  const head = begin(session, { ':method': 'HEAD' }).end()
  const [[headers], body] = await Promise.all([once(head, 'response'), text(head)])
  expect([headers[':status'], body]).toEqual([200, ''])
})

test('a broken answer resets its stream, and the connection goes on', async () => {
  const { session } = await open([['start', ''], ['write', 'half'], ['flush'], ['error', 'no']])
  for (let i = 0; i < 2; i++) {
    const stream = begin(session, { ':method': 'GET' }).end()
    stream.resume()
    await new Promise((resolve) => stream.once('close', resolve))
    expect(stream.rstCode).toBe(constants.NGHTTP2_INTERNAL_ERROR)
  }
})

test('a client that does not read stops the guest, by flow control', async () => {
  const { session, codes } = await open(
    [['start', ''], { repeat: 1_000, steps: [['write zeros', 65_536]] }],
    { outputLimit: 0 },
  )
  const stream = begin(session, { ':method': 'GET' }).end()
  await once(stream, 'response')
  let before = -1
  while (before !== (await codes()).length) {
    before = (await codes()).length
    await new Promise((resolve) => setTimeout(resolve, 100)) // until nothing changes
  }
  expect(before).toBeLessThan(20)
})

test('a client that cancels is noticed', async () => {
  const { session, codes } = await open([['start', ''], ['flush'], ['wait', 600_000], ['read', 10]])
  const stream = begin(session, { ':method': 'GET' }).end()
  await once(stream, 'response')
  stream.close(constants.NGHTTP2_CANCEL)
  expect(await codes(4)).toEqual([0, 0, -1, -1])
})

test.each([
  ['two lines of a header with a single value', { etag: ['a', 'b'] }],
  ['a header of the connection', { 'http2-settings': 'a' }],
])('a guest cannot set %s', async (_what, headers) => {
  const { session, codes } = await open([['start', JSON.stringify({ headers })]])
  const stream = begin(session, { ':method': 'GET' }).end()
  expect(await codes(1)).toEqual([-4])
  expect(await text(stream)).toBe('')
})
