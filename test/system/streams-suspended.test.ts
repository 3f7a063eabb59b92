import { createHash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { type ClientRequest, createServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { StdioExchange } from '../../src/cli/stdio-exchange.ts'
import { HostBridge } from '../../src/engine/workers/host-bridge.ts'
import { connectStream } from '../../src/guest/streams/stream-protocol.ts'
import type { RouteOptions } from '../../src/index.ts'
import { suspending } from '../../src/platform/missing-types.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { STREAMS_PER_THREAD } from '../../src/runtime/streaming.ts'
import { openEngine } from '../support/engine.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { keepLog } from '../support/instance.ts'
import { serveHttp } from '../support/outbound.ts'
import { listen, listenAll, serve } from '../support/serve.ts'
import { openServicesOf } from '../support/services.ts'
import { type Step, serveSteps, streamGuest } from '../support/stream-guest.ts'
import { openSocket } from '../support/web-socket.ts'

/* Guests that are suspended while they wait: only newer versions of Node.js can do that. */

const TELL = { plugin: guest('stream'), function: 'tell', bodyLimit: 0, outputLimit: 0, spareWorkers: 0 }

/** The engines that run several guests in one thread. */
const ENGINES: [string, Partial<RouteOptions>][] = [
  ['a worker', { workers: 1 }],
  ['the event loop', { engine: 'inline', workers: 0 }],
]

describe.skipIf(!suspending)('suspended guests', () => {
  test('a thousand clients of events on four threads each get their own', async () => {
    const { url } = await listen({ ...TELL, workers: 4 })
    const clients = Array.from({ length: 1_000 }, (_, id) => new TellClient(url, id))
    for (const round of [1, 2, 3]) {
      // All exchanges are open: each guest has answered, and waits for the next piece.
      expect(await Promise.all(clients.map((client) => client.ask(round)))).toEqual(
        clients.map((client) => client.expected(round)),
      )
    }
    expect(await Promise.all(clients.map((client) => client.end()))).toEqual(clients.map(() => ''))
  })

  test('on the event loop, an answer to HEAD without an end does not block other requests', async () => {
    const steps: Step[] = [['start', ''], { repeat: 2_000_000_000, steps: [['write zeros', 200_000]] }]
    const { url, port } = await listenAll([
      { plugin: streamGuest(...steps), method: '*', engine: 'inline', workers: 0, outputLimit: 0 },
      { plugin: guest('echo'), url: '/echo' },
    ])
    const socket = connect({ port, host: '127.0.0.1' })
    onTestFinished(() => void socket.destroy())
    socket.write('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
    await once(socket, 'data')
    expect(await (await fetch(`${url}/echo`, { method: 'POST', body: 'a' })).text()).toBe('a')
  })

  test('on the event loop, the call for each message of a WebSocket has requests of its own', async () => {
    const { port } = await serveHttp((_request, response) => void response.end('x'))
    const steps: Step[] = [
      ['http open', JSON.stringify({ url: `http://127.0.0.1:${port}/` })],
      ['http read', 1, 10],
      ['output', 'a'],
    ]
    const allowedHosts = ['127.0.0.1']
    const served = await serveSteps(steps, {
      engine: 'inline',
      workers: 0,
      contract: 'websocket',
      allowedHosts,
    })
    const { socket, next } = await openSocket(served.port)
    for (const message of ['1', '2']) {
      socket.send(message)
      expect(await next()).toBe('a')
    }
    expect(await served.codes(4)).toEqual([1, 1, 1, 1])
  })

  // Of twenty streams on two threads, the looping one is ended.
  test.each([
    ['ends alone', 'on', 19],
    ['takes the streams of its thread along if it has no checks', 'off', 10],
  ] as const)('a guest that loops after it was suspended %s', async (_name, interrupts, left) => {
    const { url } = await listen({ ...TELL, workers: 2, timeoutMs: 200, interrupts })
    const clients = Array.from({ length: 20 }, (_, id) => new TellClient(url, id))
    await Promise.all(clients.map((client) => client.ask(1)))
    const [looper, ...others] = clients
    await expect(looper?.send('!')).rejects.toThrow('aborted')
    const second = await Promise.allSettled(others.map((client) => client.ask(2)))
    const answers = second.flatMap((one, at) =>
      one.status === 'fulfilled' ? [[one.value, others[at]?.expected(2)]] : [],
    )
    expect(answers).toHaveLength(left)
    for (const [own, expected] of answers) expect(own).toBe(expected)
    const later = new TellClient(url, 99)
    expect(await later.ask(1)).toBe(later.expected(1))
  })

  test.each(
    ENGINES,
  )('a hundred uploads and downloads at a time are never mixed in %s', async (_name, route) => {
    const { url } = await listen({ ...TELL, function: 'echo', ...route })
    const outcomes = Array.from({ length: 100 }, async (_, id) => {
      const { sent, received } = await echo(url, id, 300_000 + 1_000 * id, id % 10 === 0 ? 1 : 0)
      return sent === received
    })
    expect((await Promise.all(outcomes)).filter((isOwn) => !isOwn)).toEqual([])
  })

  test('waits of guests in one thread do not count toward their deadlines', async () => {
    const { url } = await serveSteps(
      [
        ['wait', 400],
        ['start', ''],
        ['write', 'done'],
      ],
      { timeoutMs: 200 },
    )
    const answers = await Promise.all(Array.from({ length: 50 }, async () => (await fetch(url)).text()))
    expect(answers.filter((text) => text !== 'done')).toEqual([])
  })

  test.each(
    ENGINES,
  )('a guest that ignores that its client has gone is ended alone in %s', async (_name, route) => {
    const steps: Step[] = [['start', ''], ['flush'], { repeat: 1_000_000_000, steps: [['wait', 10]] }]
    const { url, lines, line } = await serveSteps(steps, { ...route, logRate: 1 })
    const abort = new AbortController()
    onTestFinished(() => abort.abort())
    const leaving = Array.from({ length: 2 }, () => request(url, { agent: false }).end())
    const answered = Promise.all(leaving.map((sending) => once(sending, 'response')))
    const staying = await fetch(url, { signal: abort.signal })
    await answered
    for (const sending of leaving) sending.on('error', () => undefined).socket?.resetAndDestroy()
    const gone = () => lines.filter(({ code }) => code === 'WASM_SERVE_CLIENT_GONE').length
    await line(() => gone() === 2)
    const rest = Promise.race([staying.text(), new Promise((resolve) => setImmediate(resolve, 'open'))])
    expect(await rest).toBe('open')
  })

  test.each(
    ENGINES,
  )('what a guest sets is its own: order, status and trailers in %s', async (_name, route) => {
    const { url, codes } = await serveSteps(
      [
        ['write', 'early'],
        ['start', '{"status":201}'],
        ['start', ''],
        ['write', 'a'],
        ['flush'],
        ['gone'],
        ['wait', 1],
        ['write', 'b'],
        ['trailers', '{}'],
        ['write', 'late'],
        ['flush'],
      ],
      route,
    )
    const answer = await fetch(url)
    expect([answer.status, await answer.text()]).toEqual([201, 'ab'])
    expect(await codes(11)).toEqual([-2, 0, -2, 0, 0, 0, 0, 0, 0, -2, 0])
  })

  test.each(ENGINES)('large writes and many pieces arrive in order in %s', async (_name, route) => {
    const { url } = await serveSteps(
      [
        ['start', ''],
        ['write zeros', 1_000_000],
        ['write', 'x'],
        ['write zeros', 200_000],
        ['write', 'end'],
      ],
      route,
    )
    const body = Buffer.from(await (await fetch(url)).arrayBuffer())
    expect([body.length, body.indexOf('x'), body.subarray(-3).toString()]).toEqual([
      1_200_004,
      1_000_000,
      'end',
    ])
  })

  test.each(ENGINES)('each exchange may have a fresh instance in %s', async (_name, route) => {
    const { url } = await listen({ ...TELL, ...route, isolation: 'fresh' })
    const clients = Array.from({ length: 20 }, (_, id) => new TellClient(url, id))
    for (const round of [1, 2])
      expect(await Promise.all(clients.map((client) => client.ask(round)))).toEqual(
        clients.map((client) => client.expected(round)),
      )
  })

  test('while a guest waits for HTTP, others of its thread run', async () => {
    const requests = new EventEmitter()
    const upstream = createServer((asked, answer) => {
      if (asked.url === '/slow') requests.once('release', () => answer.end('slow'))
      else answer.end('fast')
      requests.emit(asked.url ?? '')
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void upstream.close())
    await once(upstream, 'listening')
    const { port } = upstream.address() as AddressInfo
    const fetching = { plugin: FETCHING, function: 'run', workers: 1, allowedHosts: ['127.0.0.1'] }
    const { url } = await listen({ ...fetching, spareWorkers: 0 })
    const ask = async (path: string) => {
      const body = JSON.stringify({ url: `http://127.0.0.1:${port}${path}` })
      return (await fetch(url, { method: 'POST', body })).text()
    }
    const isAsked = once(requests, '/slow')
    const slow = ask('/slow')
    await isAsked
    expect(await ask('/fast')).toBe('fast')
    requests.emit('release')
    expect(await slow).toBe('slow')
  })

  test('a guest that would wait while it starts does not start', async () => {
    await expect(serve({ plugin: STARTING, function: 'run' })).rejects.toMatchObject({
      code: 'WASM_SERVE_INSTANCE_START_FAILED',
      message: expect.stringContaining('while the guest starts'),
    })
  })

  test('a guest that catches its end and goes on is ended alone', async () => {
    const { url, line } = await serveSteps([], { plugin: CATCHING })
    const leaving = request(url, { agent: false }).end()
    const [staying] = await Promise.all([fetch(url), once(leaving, 'response')])
    leaving.on('error', () => undefined).socket?.resetAndDestroy()
    await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
    const rest = Promise.race([staying.text(), new Promise((resolve) => setImmediate(resolve, 'open'))])
    expect(await rest).toBe('open')
    await staying.body?.cancel().catch(() => undefined)
  })

  test('a guest without checks that catches its end and goes on is ended with its thread', async () => {
    const route = { plugin: CATCHING, method: '*', workers: 1, spareWorkers: 0, interrupts: 'off' } as const
    const { url } = await listen(route)
    const [leaving, other] = [request(url, { agent: false }).end(), request(url, { agent: false }).end()]
    const answers = await Promise.all([once(leaving, 'response'), once(other, 'response')])
    leaving.on('error', () => undefined).socket?.resetAndDestroy()
    await expect(text(answers[1][0])).rejects.toThrow('aborted')
  })

  test('a guest that streams on the event loop is tried in a thread before, if code runs when it starts', async () => {
    const { url } = await listen({ plugin: file('trial.wasm', READY), engine: 'inline', load: 'lazy' })
    expect(await (await fetch(url, { method: 'POST', body: 'tried' })).text()).toBe('tried')
  })

  test('after many streams no call is left, and few instances are', async () => {
    const services = await openServicesOf(await loadPlugin(guest('stream')))
    const engine = await openEngine({ name: 'workers', runtime: kernel }, 'stream', {
      concurrent: STREAMS_PER_THREAD,
      services: services.names,
      bridge: new HostBridge(services, true),
      spareWorkers: 0,
    })
    await engine.ready
    const ofOne = engine.stats.guestBytes
    const gate = new EventEmitter()
    const isOpen = once(gate, 'open')
    const outputs = new Map<number, string>()
    const calls = Array.from({ length: 200 }, async (_, id) => {
      const host = {}
      async function* body() {
        yield Buffer.from(`first of ${id} `)
        await isOpen
        yield Buffer.from(`last of ${id}`)
      }
      const write = async (bytes: Uint8Array) => {
        outputs.set(id, (outputs.get(id) ?? '') + Buffer.from(bytes))
        gate.emit('write')
        return true
      }
      connectStream(host, new StdioExchange(body(), write, keepLog()))
      return engine.call('echo', new Uint8Array(), { log: keepLog(), host })
    })
    while (outputs.size < calls.length) await once(gate, 'write')
    gate.emit('open')
    await Promise.all(calls)
    expect(calls.map((_, id) => outputs.get(id))).toEqual(
      calls.map((_, id) => `first of ${id} last of ${id}`),
    )
    expect(engine.stats).toMatchObject({ running: 0, waiting: 0, restarted: 0, timeouts: 0 })
    expect(engine.stats.guestBytes).toBeLessThanOrEqual(8 * ofOne)
  })

  test('with the engine inline, more streams than the limit wait and get 503', async () => {
    const steps = [['start', ''], ['flush'], ['wait', 60_000]] as const
    const { url } = await serveSteps(steps, { engine: 'inline', workers: 0, maxWaitMs: 1_000 })
    const abort = new AbortController()
    onTestFinished(() => abort.abort())
    for (let open = 0; open < STREAMS_PER_THREAD; open++) await fetch(url, { signal: abort.signal })
    const answer = await fetch(url)
    expect([answer.status, JSON.parse(await answer.text()).code]).toEqual([503, 'WASM_SERVE_STREAMS_FULL'])
  })
})

const STREAM_IMPORTS = `
  (import "extism:host/env" "http_request" (func $http (param i64 i64) (result i64)))
  (import "wasm-serve:http" "request_read" (func $read (param i64) (result i64)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  (import "wasm-serve:http" "response_flush" (func $flush (result i64)))
  (import "wasm-serve:http" "wait" (func $wait (param i64) (result i64)))`

/** Sends the request that is its body, and answers with what comes. */
const FETCHING = guestBytes(`(module ${STREAM_IMPORTS}
  (func (export "run") (result i32)
    (drop (call $start (i64.const 0)))
    (drop (call $write (call $http (call $read (i64.const 65536)) (i64.const 0))))
    (i32.const 0)))`)

/** Sends a piece back. Its start runs code. */
const READY = guestBytes(`(module ${STREAM_IMPORTS}
  (func (export "_initialize"))
  (func (export "run") (result i32)
    (drop (call $start (i64.const 0)))
    (drop (call $write (call $read (i64.const 100))))
    (i32.const 0)))`)

/** Waits before its first call. */
const STARTING = guestBytes(`(module ${STREAM_IMPORTS}
  (func (export "_initialize") (drop (call $wait (i64.const 1))))
  (func (export "run") (result i32) (i32.const 0)))`)

/** Waits for ever, whatever comes. */
const CATCHING = guestBytes(
  `(module ${STREAM_IMPORTS}
  (func (export "run") (result i32)
    (drop (call $start (i64.const 0)))
    (drop (call $flush))
    (loop $for_ever
      (try (do (drop (call $wait (i64.const 60000)))) (catch_all))
      (br $for_ever))
    (i32.const 0)))`,
)

/** A client that sends an event at a time and gets it back. */
class TellClient {
  readonly #id: number
  readonly #sending: ClientRequest
  readonly #answer: Promise<IncomingMessage>
  #text = ''

  constructor(url: string, id: number) {
    this.#id = id
    this.#sending = request(url, { method: 'POST', agent: false })
    this.#sending.on('error', () => undefined) // the answer tells
    this.#answer = once(this.#sending, 'response').then(([answer]) => answer as IncomingMessage)
    this.#answer.catch(() => undefined)
  }

  expected(round: number): string {
    return `id: ${this.#id}\ndata: client ${this.#id} round ${round}\n\n`
  }

  ask(round: number): Promise<string> {
    return this.send(JSON.stringify({ id: `${this.#id}`, data: `client ${this.#id} round ${round}` }))
  }

  /** Sends a piece. @returns the event that comes. */
  async send(piece: string): Promise<string> {
    this.#sending.write(piece)
    const answer = await this.#answer
    if (answer.errored) throw answer.errored
    while (!this.#text.includes('\n\n')) {
      const [bytes] = await once(answer, 'data')
      this.#text += bytes
    }
    const end = this.#text.indexOf('\n\n') + 2
    const event = this.#text.slice(0, end)
    this.#text = this.#text.slice(end)
    return event
  }

  /** @returns what comes after the last event. */
  async end(): Promise<string> {
    const answer = await this.#answer
    this.#sending.end()
    for await (const bytes of answer) this.#text += bytes
    return this.#text
  }
}

/** Sends a body that is unique to its id and reads the answer at the same time. @returns the digests of both. */
async function echo(url: string, id: number, bytes: number, pauseMs: number) {
  const sent = createHash('sha256')
  const sending = request(url, { method: 'POST', agent: false })
  function* pieces() {
    for (let at = 0; at < bytes; at += 50_000) {
      const piece = Buffer.alloc(Math.min(50_000, bytes - at), `${id} ${at};`)
      sent.update(piece)
      yield piece
    }
  }
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>
  Readable.from(pieces()).pipe(sending)
  const [answer] = await answered
  const received = createHash('sha256')
  for await (const piece of answer) {
    received.update(piece)
    if (pauseMs > 0) await sleep(pauseMs)
  }
  return { sent: sent.digest('hex'), received: received.digest('hex') }
}
