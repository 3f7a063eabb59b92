import { expect, onTestFinished, test } from 'vitest'
import type { ServerOptions } from '../../src/options/options.ts'
import { file, guest } from '../support/guest.ts'
import {
  DATA,
  END_STREAM,
  type FrameClient,
  frame,
  GOAWAY,
  HEADERS,
  openFrames,
  PING,
  preface,
  RST_STREAM,
  requestHead,
  reset,
  windowUpdate,
} from '../support/http2-frames.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'
import { type Step, streamGuest } from '../support/stream-guest.ts'

const { ca, tls } = localhostTls()

/** Guests that leave the bodies of their requests unread, by the URLs of their routes. */
const GUESTS: Record<string, readonly Step[]> = {
  whole: [['output', 'whole']],
  error: [['error', 'no']],
  small: [
    ['start', '{"status":413}'],
    ['write', 'small'],
  ],
  slow: [['start', ''], ['write', 'begin'], ['flush'], ['wait', 100], ['write', 'end']],
  large: [['start', ''], { repeat: 32, steps: [['write zeros', 65_536]] }],
  empty: [['start', '']],
  'no-content': [['start', '{"status":204}']],
  'not-modified': [['start', '{"status":304}']],
  trailers: [
    ['start', '{"trailers":["x-sum"]}'],
    ['write', 'abc'],
    ['trailers', '{"x-sum":"42"}'],
  ],
  // A client's window of 65,535 bytes is exactly full: then END_STREAM waits.
  full: [
    ['start', ''],
    ['write zeros', 65_535],
  ],
  trap: [['start', ''], ['write', 'half'], ['flush'], ['trap']],
}

async function serve(server: Partial<ServerOptions> = {}, names = Object.keys(GUESTS)) {
  const routes = names.map((name) => ({
    plugin: file(`${name}.wasm`, streamGuest(...(GUESTS[name] ?? []))),
    url: `/${name}`,
    method: '*' as const,
    workers: 1,
    spareWorkers: 0,
    bodyLimit: 0,
    outputLimit: 0,
  }))
  const echo = { plugin: guest('echo'), url: '/echo', bodyLimit: 100 }
  const running = await listenAll([...routes, echo], { tls, http2: true, ...server })
  onTestFinished(() => running.drain())
  return {
    ...running,
    open: (windowSize?: number) => openFrames(running.port, ca, preface(windowSize)),
  }
}

/** Begins a request with a piece of a body that does not end. */
async function begin(client: FrameClient, stream: number, headers: Record<string, string>): Promise<void> {
  client.send(requestHead(stream, headers))
  await client.upload(stream, 1_000)
}

function isEnd(stream: number) {
  return ({ stream: id, type, flags }: { stream: number; type: number; flags: number }) =>
    id === stream && type <= 1 && (flags & END_STREAM) !== 0
}

function isReset(stream: number) {
  return ({ stream: id, type }: { stream: number; type: number }) => id === stream && type === RST_STREAM
}

test('an answer that comes before the end of the body is complete before its stream is reset', async () => {
  const { open } = await serve()
  const client = await open(2 ** 24)
  client.send(windowUpdate(0, 2 ** 24))
  const requests = [
    [':path', '/whole'],
    [':path', '/error'],
    [':path', '/small'],
    [':path', '/slow'],
    [':path', '/large'],
    [':path', '/empty'],
    [':path', '/no-content'],
    [':path', '/not-modified'],
    [':path', '/trailers'],
    [':path', '/none'],
    [':path', '/echo', 'content-length', '5000000'],
    [':path', '/echo'],
    [':path', '/small', ':method', 'HEAD'],
    [':path', '/whole', ':method', 'HEAD'],
    [':path', '/none', ':method', 'HEAD'],
    [':path', '/echo', ':method', 'PUT'],
    [':path', '/whole', 'host', 'two.example'],
  ] as const
  const endings: Record<string, string[]> = {}
  await Promise.all(
    requests.map(async (words, i) => {
      const stream = 2 * i + 1
      const pairs = words.flatMap((word, at) => (at % 2 === 0 ? [[word, String(words[at + 1])]] : []))
      await begin(client, stream, Object.fromEntries(pairs))
      await client.frame(isReset(stream))
      endings[words.join(' ')] = client.story(stream).slice(-2)
    }),
  )
  expect(endings).toEqual(
    Object.fromEntries(requests.map((words) => [words.join(' '), ['END_STREAM', 'RST_STREAM 0']])),
  )
})

test('a small answer has a frame for its head and one for its body and end', async () => {
  const { open } = await serve({}, [])
  const client = await open()
  for (const stream of [1, 3, 5]) {
    client.send(
      requestHead(stream, { ':path': '/echo' }),
      frame(DATA, END_STREAM, stream, Buffer.from(`${stream}`)),
    )
    await client.frame(isEnd(stream))
    const answer = client.frames.filter((each) => each.stream === stream)
    expect(answer.map(({ type, flags }) => [type, flags & END_STREAM])).toEqual([
      [HEADERS, 0],
      [DATA, END_STREAM],
    ])
    expect(answer[1]?.payload.toString()).toBe(`${stream}`)
  }
})

test('a body that ends after its answer needs no reset', async () => {
  const { open } = await serve({}, ['small', 'whole'])
  const client = await open()
  for (const [i, path] of ['/small', '/whole', '/none', '/echo'].entries()) {
    const stream = 2 * i + 1
    await begin(client, stream, { ':path': path })
    await client.frame(isEnd(stream))
    expect(await client.upload(stream, 2 ** 21)).toBe(2 ** 21) // more than a window: the server reads on
    client.send(frame(DATA, END_STREAM, stream), frame(PING, 0, 0, Buffer.alloc(8, stream)))
    await client.frame(({ type, payload }) => type === PING && payload[0] === stream)
    expect(client.story(stream).filter((kind) => kind.startsWith('RST'))).toEqual([])
  }
})

test('a client that has its answer and sends without end is stopped', async () => {
  const { open } = await serve({}, ['small'])
  const client = await open()
  await begin(client, 1, { ':path': '/small' })
  expect(await client.upload(1, 2 ** 26)).toBeLessThan(2 ** 25)
  expect(client.story(1)).toEqual(['HEADERS', 'DATA', 'END_STREAM', 'RST_STREAM 0'])
})

test('an end that waits for the window of its client comes before the reset', async () => {
  const { open } = await serve({}, ['full'])
  const client = await open()
  await begin(client, 1, { ':path': '/full' })
  await client.frame(({ type, payload }) => type === DATA && payload.length > 0)
  await new Promise((resolve) => setTimeout(resolve, 2_500)) // longer than a client may pause
  expect(client.story(1)).toEqual(['HEADERS', 'DATA'])
  client.send(windowUpdate(1, 1_000), windowUpdate(0, 1_000))
  await client.frame(isReset(1))
  expect(client.story(1)).toEqual(['HEADERS', 'DATA', 'END_STREAM', 'RST_STREAM 0'])
})

test('a client that never opens its window for the end of an answer is cut off', async () => {
  const { open } = await serve({ unreadTimeoutMs: 200 }, ['full'])
  const client = await open()
  for (const [stream, body] of [
    [1, []],
    [3, [frame(DATA, END_STREAM, 3)]],
  ] as const) {
    await begin(client, stream, { ':path': '/full' })
    client.send(...body)
    await client.frame(isReset(stream))
    expect(client.story(stream)).toEqual(['HEADERS', 'DATA', 'RST_STREAM 8'])
    client.send(windowUpdate(0, 65_535))
  }
})

test('a client that does not read the bytes of its connection gets its answers whole', async () => {
  const { open } = await serve({}, ['large', 'whole'])
  const client = await open(2 ** 24)
  client.send(windowUpdate(0, 2 ** 28))
  client.socket.pause()
  const streams = [1, 3, 5, 7, 9, 11, 13, 15]
  for (const stream of streams) await begin(client, stream, { ':path': stream === 15 ? '/whole' : '/large' })
  await new Promise((resolve) => setTimeout(resolve, 2_500)) // longer than a client may pause
  client.socket.resume()
  for (const stream of streams) {
    await client.frame(isReset(stream))
    expect(client.story(stream)).toEqual(['HEADERS', 'DATA', 'END_STREAM', 'RST_STREAM 0'])
  }
})

test('a guest that breaks off its answer resets its stream with an error', async () => {
  const { open } = await serve({}, ['trap'])
  const client = await open()
  await begin(client, 1, { ':path': '/trap' })
  await client.frame(isReset(1))
  expect(client.story(1)).toEqual(['HEADERS', 'DATA', 'RST_STREAM 2'])
})

test('a client that resets its stream after the answer gets nothing more of it', async () => {
  const { open } = await serve({}, ['small'])
  const client = await open()
  await begin(client, 1, { ':path': '/small' })
  await client.frame(isEnd(1))
  client.send(reset(1))
  await begin(client, 3, { ':path': '/small' })
  await client.frame(isReset(3))
  expect(client.story(1)).toEqual(['HEADERS', 'DATA', 'END_STREAM'])
})

test('a server that ends lets a client have the whole answer to a body that has not ended', async () => {
  const { open, drain } = await serve({ graceMs: 20_000 }, ['slow'])
  const client = await open()
  await begin(client, 1, { ':path': '/slow' })
  await client.frame(({ type }) => type === DATA)
  const ended = drain()
  await client.frame(({ type }) => type === GOAWAY)
  await client.frame(isReset(1))
  expect(client.story(1)).toEqual(['HEADERS', 'DATA', 'END_STREAM', 'RST_STREAM 0'])
  await ended
})

test('a body that does not come after its answer ends no request with 408', async () => {
  const { open } = await serve({ requestTimeoutMs: 100 }, ['whole'])
  const client = await open()
  await begin(client, 1, { ':path': '/none' })
  await client.frame(isReset(1))
  expect(client.story(1)).toEqual(['HEADERS', 'DATA', 'END_STREAM', 'RST_STREAM 0'])
})
