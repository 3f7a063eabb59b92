import { setTimeout as sleep } from 'node:timers/promises'
import WebSocket from 'ws'
import { chooseMood, isExpected } from '../chaos.ts'
import { versionIn } from '../fleet/versions.ts'
import type { Random } from '../random.ts'
import {
  HangError,
  LostError,
  MovedError,
  openHttp1,
  openHttp2,
  type Reply,
  type Sender,
  type Target,
} from './senders.ts'
import type { Tally } from './tally.ts'
import type { Versions } from './versions.ts'

/*
 * Clients of all routes, each in a closed loop. Every request has a unique id, which its answer must contain.
 */

export interface Clients {
  /** Lets each complete its request, and waits for all. */
  stop(): Promise<void>
}

export interface ClientsOptions {
  readonly target: Target
  readonly tally: Tally
  readonly random: Random
  readonly versions: Versions
  /** What the store has acknowledged, by key. */
  readonly written: Map<string, string>
  /** Mean pause of a client between two requests. */
  readonly pauseMs: number
}

/** Codes with which a request may be refused whatever it is. */
const REFUSALS = new Set([
  '503 QUEUE_FULL',
  '503 QUEUE_SLOW',
  '503 BREAKER_OPEN',
  '503 ENGINE_CLOSED',
  '503 HOST_UNAVAILABLE',
  '503 INSTANCE_START_FAILED',
  '503 SHUTTING_DOWN',
  '503 STORE_UNAVAILABLE',
  '503 STREAMS_FULL',
  '503 THREADS_STUCK',
  '503 WEBSOCKETS_FULL',
  '504 DEADLINE_EXCEEDED',
  '504 STREAM_TIMEOUT',
])

let serial = 0

/** A text that no other request has. */
function newId(): string {
  return `${process.pid}-${++serial}`
}

export function startClients(options: ClientsOptions): Clients {
  const { target, tally, random, pauseMs } = options
  let isOver = false
  const rest = () => sleep(pauseMs * 2 * random())

  const loop = async (kind: string, step: () => Promise<void>) => {
    while (!isOver) {
      try {
        await step()
      } catch (error) {
        noteFailure(tally, kind, error)
      }
      await rest()
    }
  }
  const over = (name: string, open: (target: Target) => Sender) =>
    Object.entries(EXCHANGES).flatMap(([exchange, make]) => {
      if (name === 'h2' && exchange === 'stream') return []
      const sender = open(target)
      const kind = `${name} ${exchange}`
      const step = make({ ...options, kind, sender })
      const loops = Array.from({ length: name === 'h2' ? 2 : 1 }, () => loop(kind, step))
      return Promise.all(loops).finally(() => sender.close())
    })
  const running = [
    ...over(target.socketPath ? 'unix' : target.isTls ? 'https' : 'http', openHttp1),
    ...(target.isTls ? over('h2', openHttp2) : []),
    loop('websocket', () => converse(options)),
    loop('leaver', () => leave(options)),
  ]
  return {
    async stop() {
      isOver = true
      await Promise.all(running)
    },
  }
}

function noteFailure(tally: Tally, kind: string, error: unknown): void {
  if (error instanceof LostError) {
    const { part, port, at, message: reason, isClosable } = error
    tally.lose({ kind, what: part.slice(0, 40), port, at, reason, isClosable })
  } else if (error instanceof MovedError) tally.count(kind, 'moved')
  else if (error instanceof HangError) tally.problem(`${kind}: no answer within the limit`)
  else tally.problem(`${kind}: ${error}`)
}

interface Exchange extends ClientsOptions {
  readonly kind: string
  readonly sender: Sender
}

/** By name: one request, or a few that belong together. */
const EXCHANGES: Readonly<Record<string, (exchange: Exchange) => () => Promise<void>>> = {
  inline: (exchange) => () => zoo(exchange, '/inline', 'inline'),
  threads: (exchange) => () => zoo(exchange, '/threads', 'threads'),
  guests: (exchange) => () => zoo(exchange, '/guests', 'threads'),
  large: (exchange) => () => echo(exchange),
  version: (exchange) => () => version(exchange),
  store: (exchange) => () => store(exchange),
  stream: (exchange) => () => stream(exchange),
  mcp: (exchange) => () => mcp(exchange),
}

async function zoo(exchange: Exchange, path: string, where: 'inline' | 'threads'): Promise<void> {
  const { sender, random, kind } = exchange
  const sent = `${chooseMood(random, where)}${newId()}`
  const reply = await sender.send(path, sent)
  const end = endOf(reply)
  const isOwn = reply.status !== 200 || reply.body === sent
  const isLostGuest = path === '/guests' && end === '500 WORKER_LOST'
  note(exchange, isOwn && (isExpected(sent, end) || isLostGuest), end, `${kind} ${sent.slice(0, 30)}`, reply)
}

/** Up to 300 KiB. */
async function echo(exchange: Exchange): Promise<void> {
  const { sender, random } = exchange
  const id = newId()
  const sent = `${id} `.repeat(1 + Math.floor((random() ** 2 * 300_000) / id.length))
  const reply = await sender.send('/large', sent)
  note(
    exchange,
    reply.status === 200 && reply.body === sent,
    endOf(reply),
    `large ${id}, ${reply.body.length} of ${sent.length}`,
    reply,
  )
}

/** After a change was answered, no new request may meet what was before. */
async function version(exchange: Exchange): Promise<void> {
  const { sender, versions } = exchange
  const sent = `${newId()} `
  const begun = performance.now()
  const reply = await sender.send('/version', sent)
  const found = reply.status === 200 ? versionIn(reply.body, sent) : undefined
  const isRight = found !== undefined && versions.isPossible(found, begun)
  note(exchange, isRight, endOf(reply), `version ${sent} ${versions.describe()}`, reply)
}

/** Writes a key, and reads it back: what is acknowledged is there. */
async function store(exchange: Exchange): Promise<void> {
  const { sender, written } = exchange
  const value = newId()
  const key = value.slice(-8).padStart(8, '0')
  const set = await sender.send('/set', `${key}${value}`)
  note(exchange, set.status === 200 && set.body === '', endOfStore(set), `set ${key}`, set)
  if (set.status !== 200) return
  written.set(key, value)
  const got = await sender.send('/get', key)
  note(exchange, got.status === 200 && got.body === value, endOfStore(got), `get ${key}`, got)
}

/** The guest returns the code of the store. */
function endOfStore(reply: Reply): string {
  return reply.body.endsWith('returned -7') ? '503 STORE_UNAVAILABLE' : endOf(reply)
}

/** Sends lines now and then, which come back. */
async function stream(exchange: Exchange): Promise<void> {
  const { sender, random, kind } = exchange
  const id = newId()
  const lines = Array.from({ length: 1 + Math.floor(random() * 40) }, (_, i) => `${id},${i};`)
  async function* pieces() {
    for (const line of lines) {
      yield line
      await sleep(random() * 10)
    }
  }
  const sent = lines.join('')
  try {
    const reply = await sender.send('/stream', pieces())
    note(exchange, reply.status === 200 && reply.body === sent, endOf(reply), `stream ${id}`, reply)
  } catch (error) {
    if (error instanceof LostError && !sent.startsWith(error.part))
      exchange.tally.problem(`${kind} ${id}: crossed bytes ${error.part.slice(0, 200)}`)
    throw error
  }
}

async function mcp(exchange: Exchange): Promise<void> {
  const { sender } = exchange
  const input = `x${newId()}`
  const id = ++serial
  const message = {
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'threads', arguments: { input } },
  }
  const reply = await sender.send('/mcp', JSON.stringify(message), {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
  })
  const { body } = reply
  const text = reply.type.startsWith('text/event-stream') ? (/^data: (.*)$/m.exec(body)?.[1] ?? '{}') : body
  const answer = reply.status === 200 ? JSON.parse(text) : {}
  const said = answer.result?.content?.[0]?.text ?? answer.error?.message
  const isError = answer.result?.isError === true || answer.error !== undefined
  const code = /WASM_SERVE_(\w+)/.exec(text)?.[1]
  const end = isError ? `${code?.startsWith('DEADLINE') ? 504 : 503} ${code}` : endOf(reply)
  note(exchange, answer.id === id && !isError && said === input, end, `mcp ${input}`, reply)
}

async function converse({ target, tally, random }: ClientsOptions): Promise<void> {
  const { host, port, socketPath, isTls } = target
  const place =
    socketPath === undefined ? `${isTls ? 'wss' : 'ws'}://${host}:${port}/ws` : `ws+unix://${socketPath}:/ws`
  const socket = new WebSocket(place, { rejectUnauthorized: false })
  let own: number | undefined
  let status = 0
  let expected: string | undefined
  const count = 1 + Math.floor(random() * 30)
  let failure = ''
  socket.on('upgrade', ({ socket }) => {
    own = socket.localPort
  })
  socket.on('unexpected-response', (request, response) => {
    status = response.statusCode ?? 0
    request.destroy()
    socket.terminate()
  })
  socket.on('error', (error) => {
    failure = String(error)
  })
  const next = (left: number) => {
    if (left === 0) return socket.close(1000)
    expected = newId()
    socket.send(expected)
  }
  let left = count
  socket.on('open', () => next(left))
  socket.on('message', (data, isBinary) => {
    if (isBinary || String(data) !== expected)
      tally.problem(`websocket: ${expected} got ${String(data).slice(0, 100)}`)
    tally.count('websocket', 'answered')
    expected = undefined
    setTimeout(() => next(--left), 5 + random() * 20)
  })
  const code = await new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.terminate()
      reject(new HangError('hung'))
    }, HANG_MS)
    socket.on('close', (code) => {
      clearTimeout(timer)
      resolve(code)
    })
  })
  if (code === 1000) return
  if (code === 1001) return tally.count('websocket', 'moved')
  if (code === 1013) return tally.count('websocket', 'closed with 1013')
  if (status === 503) return tally.count('websocket', '503')
  if (code === 1006 && status === 0)
    return tally.lose({
      kind: 'websocket',
      what: '',
      port: own,
      at: Date.now(),
      reason: failure || 'closed',
      isClosable: failure.includes('before secure TLS connection was established'),
    })
  tally.problem(`websocket: closed with ${code}, status ${status}, ${failure}`)
}

const HANG_MS = 180_000

/** A client that goes in the middle of its body, or before the answer. */
async function leave({ target, tally, random }: ClientsOptions): Promise<void> {
  const sender = openHttp1(target)
  const isEarly = random() < 0.5
  async function* half() {
    yield 'half of '
    await sleep(20)
    if (isEarly) sender.close()
    yield 'a body'
  }
  const sent = sender.send(random() < 0.5 ? '/stream' : '/threads', half()).catch(() => undefined)
  await sleep(random() * 60)
  sender.close()
  await sent
  tally.count('leaver', 'left')
}

function note({ tally, kind }: Exchange, isRight: boolean, end: string, what: string, reply: Reply): void {
  const isRefused = REFUSALS.has(end)
  tally.count(kind, isRight ? (end === '200' ? 'answered' : `${end}, as asked for`) : end)
  if (!isRight && !isRefused) tally.problem(`${kind}: ${end}: ${what}: ${reply.body.slice(0, 300)}`)
}

/** The status, and the code of a failure without its common beginning. */
function endOf({ status, body, type }: Reply): string {
  if (!type.startsWith('application/problem+json')) return String(status)
  return `${status} ${/"code":"WASM_SERVE_(\w+)"/.exec(body)?.[1]}`
}
