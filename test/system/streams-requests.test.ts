import { EventEmitter, once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { serveMcp } from '../support/mcp.ts'
import { serveHttp } from '../support/outbound.ts'
import { listen, serve } from '../support/serve.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'

const ALLOWED = { allowedHosts: ['127.0.0.1'] }

const opens = (port: number, request: object = {}): Step => [
  'http open',
  JSON.stringify({ url: `http://127.0.0.1:${port}/`, ...request }),
]

/** A server whose answer begins and does not end. Emits `request`. */
async function serveEndless() {
  const news = new EventEmitter()
  const origin = await serveHttp((_request, response) => {
    response.write('begin')
    news.emit('request')
  })
  return { origin, requested: once(news, 'request') }
}

test('a guest passes an answer on, with its head', async () => {
  const { port } = await serveHttp((request, response) => {
    response
      .writeHead(203, { 'x-path': String(request.url), 'set-cookie': ['a=1', 'b=2'] })
      .end('x'.repeat(200_000))
  })
  const { url, codes, lines } = await serveSteps(
    [opens(port), ['http response', 1], ['start', '{"status":203}'], ['http pass', 1], ['http read', 1, 10]],
    ALLOWED,
  )
  const answer = await fetch(url)
  expect([answer.status, (await answer.text()).length]).toEqual([203, 200_000])
  expect(await codes(4)).toEqual([1, 0, 0, 0])
  const head = lines.find(({ msg }) => msg.startsWith('{"status"'))
  expect(JSON.parse(head?.msg ?? '')).toMatchObject({
    status: 203,
    headers: { 'x-path': '/', 'set-cookie': ['a=1', 'b=2'] },
  })
})

test('the codes of what is not possible', async () => {
  const { port } = await serveHttp(
    (request, response) => void request.resume().on('end', () => response.end('ok')),
  )
  const steps: readonly (readonly [step: Step, code: number])[] = [
    [['http open', 'no JSON'], -4],
    [['http open', '{"url":"http://localhost/"}'], -3],
    [['http open', ' '.repeat(65_537)], -5],
    [opens(port, { method: 'POST' }), 3],
    [['http write zeros', 3, 262_145], -5],
    [['http write', 3, 'abc'], 0],
    [['http end', 3], 0],
    [['http end', 3], 0],
    [['http write', 3, 'late'], -2],
    [['http read', 3, 0], -4],
    [['http read', 3, 1], 1],
    [['http read', 3, 9], 1],
    [['http read', 3, 9], 0],
    [['http close', 3], 0],
    [['http read', 3, 9], -4],
    [['http close', 3], -4],
    [['http read', -1, 9], -4],
    [opens(1), 4],
    [['http response', 4], -8],
    [['http read', 4, 9], -8],
  ]
  const { url, codes } = await serveSteps(
    steps.map(([step]) => step),
    ALLOWED,
  )
  await fetch(url)
  expect(await codes(steps.length)).toEqual(steps.map(([, code]) => code))
})

test('without an allowed host each request is refused', async () => {
  const { url, codes, line } = await serveSteps([opens(1)])
  await fetch(url)
  expect(await codes(1)).toEqual([-3])
  await line(({ level, msg }) => level === 'warn' && msg.includes('streamed HTTP request'))
})

test('a guest that only requests needs no exchange, and its input is the body', async () => {
  const { port } = await serveHttp(
    (_request, response) => void response.writeHead(201).end('x'.repeat(100_000)),
  )
  const ask = async (name: string, request: object) => {
    const app = await serve({ plugin: guest('requests'), function: name, workers: 1, ...ALLOWED })
    return (await app.inject({ method: 'POST', url: '/', payload: JSON.stringify(request) })).body
  }
  const request = { url: `http://127.0.0.1:${port}/` }
  expect(JSON.parse(await ask('head', request))).toMatchObject({ status: 201 })
  expect(await ask('size', request)).toBe('100000')
  expect(await ask('size', { url: 'http://127.0.0.1:1/' })).toBe('-8')
})

test('a tool streams requests', async () => {
  const { port } = await serveHttp((_request, response) => void response.end('x'.repeat(100_000)))
  const user = await serveMcp([
    { plugin: guest('requests'), function: 'size', url: '/size', workers: 1, ...ALLOWED },
  ])
  const { content } = await user.call('size', { input: `{"url":"http://127.0.0.1:${port}/"}` })
  expect(content).toMatchObject([{ type: 'text', text: '100000' }])
})

test.each([
  { bodyLimit: 0 },
  { outputLimit: 0 },
])('a guest that only requests cannot have %j', async (option) => {
  await expect(
    serve({ plugin: guest('requests'), function: 'size', ...ALLOWED, ...option }),
  ).rejects.toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
})

test('a guest without an exchange stops waiting when its client has gone', async () => {
  const { origin, requested } = await serveEndless()
  const { port } = await listen({ plugin: guest('requests'), function: 'size', workers: 1, ...ALLOWED })
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  const body = JSON.stringify({ url: `http://127.0.0.1:${origin.port}/` })
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  await requested
  socket.destroy()
  await origin.allClosed()
})

test.each<[string, Step[]]>([
  ['returns', []],
  ['traps', [['trap']]],
  ['meets its deadline', [['spin']]],
])('a request is closed when its guest %s', async (_what, steps) => {
  const { origin } = await serveEndless()
  const { url } = await serveSteps([opens(origin.port), ['http read', 1, 5], ...steps], {
    ...ALLOWED,
    timeoutMs: 200,
  })
  await fetch(url)
  expect(origin.accepted).toBe(1)
  await origin.allClosed()
})

test('a guest that waits for a server sees that its client has gone', async () => {
  const { origin, requested } = await serveEndless()
  const { port, codes } = await serveSteps(
    [opens(origin.port), ['http read', 1, 5], ['http read', 1, 5], ['http read', 1, 5], opens(origin.port)],
    ALLOWED,
  )
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await requested
  socket.resetAndDestroy()
  expect(await codes(5)).toEqual([1, 5, -1, -1, -1])
  await origin.allClosed()
})

test('a wait for a server does not count toward the deadline, and has its own limit', async () => {
  const { origin } = await serveEndless()
  const { url, codes } = await serveSteps(
    [opens(origin.port), ['http read', 1, 5], ['http read', 1, 5], ['http response', 1], ['start', '']],
    { ...ALLOWED, timeoutMs: 100, streamIdleMs: 300 },
  )
  expect((await fetch(url)).status).toBe(200)
  expect(await codes(4)).toEqual([1, 5, -8, 0])
})

test('what a guest has written is sent before it waits for a server', async () => {
  const { origin } = await serveEndless()
  const { url } = await serveSteps(
    [opens(origin.port), ['http read', 1, 5], ['start', ''], ['write', 'first'], ['http read', 1, 5]],
    ALLOWED,
  )
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const answer = await fetch(url, { signal: abort.signal })
  for await (const piece of answer.body ?? []) {
    expect(Buffer.from(piece).toString()).toBe('first')
    break
  }
})
