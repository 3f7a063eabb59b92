import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/*
 * A load generator on bare sockets, without pipelining. With a rate, requests come due whether or not the server has
 * answered others, and the time of an answer counts from when its request was due: a server that stalls delays all
 * that come due meanwhile. Without a rate, each connection sends its next request when it has its answer.
 */

export interface SocketLoad {
  /** Its origin is used. */
  readonly url: string
  readonly connections: number
  /** Requests a second. */
  readonly perSecond?: number
  /** The time between requests that come due: equal, or random as of independent clients (Poisson). Default: random. */
  readonly arrivals?: 'even' | 'random'
  /** The request of an id, which its body should contain. */
  request(id: number): SocketRequest
  /** Whether an answer of 200 belongs to the request. */
  isRight(body: string, answer: string): boolean
}

interface SocketRequest {
  /** Below the origin. */
  readonly path: string
  readonly body: string
}

/** The requests that were due between `begin` and `end`. */
export interface SocketAnswers {
  /** Milliseconds to each answer, right or not; to the end of the wait, if there was none. */
  readonly times: readonly number[]
  /** Answers of 200 with another body than the right one. */
  readonly wrong: number
  /** Other statuses, lost connections, and requests that have no answer yet. */
  readonly failed: number
  /** The first failure. */
  readonly problem: string | undefined
  /** From `begin` to `end`. */
  readonly seconds: number
}

export interface RunningLoad {
  /** Counts from now on. */
  begin(): void
  /** Counts no longer, and waits for the answers that are missing. The load goes on. */
  end(limitMs?: number): Promise<SocketAnswers>
  stop(): void
}

/** Opens the connections and starts to send. The caller stops it. */
export async function startSocketLoad(load: SocketLoad): Promise<RunningLoad> {
  const running = new Sockets(load)
  await running.open()
  return running
}

/** Loads a server for some seconds, after a while that does not count. @throws if an answer was wrong or failed. */
export async function fireSockets(
  load: SocketLoad,
  { seconds, rampMs = RAMP_MS }: { readonly seconds: number; readonly rampMs?: number },
): Promise<SocketAnswers> {
  const running = await startSocketLoad(load)
  try {
    await sleep(rampMs)
    running.begin()
    await sleep(seconds * 1_000)
    return refuseFailures(await running.end())
  } finally {
    running.stop()
  }
}

/** @throws if an answer was wrong or failed. */
export function refuseFailures(answers: SocketAnswers): SocketAnswers {
  const { times, wrong, failed, problem } = answers
  if (wrong + failed === 0 && times.length > 0) return answers
  throw new Error(
    `of ${times.length} requests ${wrong} were answered wrongly and ${failed} failed, such as: ${problem}`,
  )
}

const RAMP_MS = 200

/** So many connections are opened at a time: a server's backlog is limited. */
const OPENED_AT_ONCE = 100

const RETRY_MS = 100

const LIMIT_MS = 30_000

/** From this rate on, a timer of whole milliseconds would make bursts. */
const POLLED_PER_SECOND = 500

interface Pending extends SocketRequest {
  readonly due: number
}

class Sockets implements RunningLoad {
  readonly #load: SocketLoad
  readonly #origin: URL
  readonly #free: Connection[] = []
  readonly #connections = new Set<Connection>()
  /** Requests that wait for a connection. */
  readonly #queue: Pending[] = []
  #id = 0
  #isStopped = false
  #window = newWindow()

  constructor(load: SocketLoad) {
    this.#load = load
    this.#origin = new URL(load.url)
  }

  async open(): Promise<void> {
    for (let opened = 0; opened < this.#load.connections; opened += OPENED_AT_ONCE) {
      const count = Math.min(OPENED_AT_ONCE, this.#load.connections - opened)
      await Promise.all(Array.from({ length: count }, () => this.#connect()))
    }
    const { perSecond } = this.#load
    if (perSecond === undefined) for (const connection of this.#free.splice(0)) this.#next(connection)
    else this.#keepComing(perSecond)
  }

  begin(): void {
    this.#window = newWindow(performance.now())
  }

  async end(limitMs = LIMIT_MS): Promise<SocketAnswers> {
    const window = this.#window
    const endedAt = performance.now()
    window.to = endedAt
    while (window.missing.size > 0 && performance.now() - endedAt < limitMs) await sleep(POLL_MS)
    const missing = [...window.missing].map(({ due }) => performance.now() - due)
    return {
      times: [...window.times, ...missing],
      wrong: window.wrong,
      failed: window.failed + missing.length,
      problem: window.problem ?? (missing.length > 0 ? 'no answer' : undefined),
      seconds: (endedAt - window.from) / 1_000,
    }
  }

  stop(): void {
    this.#isStopped = true
    for (const { socket } of this.#connections) socket.destroy()
  }

  #keepComing(perSecond: number): void {
    const meanMs = 1_000 / perSecond
    const gap = this.#load.arrivals === 'even' ? () => meanMs : () => -Math.log(1 - Math.random()) * meanMs
    let due = performance.now() + gap()
    const tick = () => {
      if (this.#isStopped) return
      for (const now = performance.now(); due <= now; due += gap()) this.#send(this.#newRequest(due))
      if (perSecond >= POLLED_PER_SECOND) setImmediate(tick)
      else setTimeout(tick, Math.max(1, due - performance.now()))
    }
    tick()
  }

  /** Also replaces a connection that the server has closed. */
  async #connect(): Promise<void> {
    const { hostname, port } = this.#origin
    while (!this.#isStopped) {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true })
      try {
        await once(socket, 'connect')
        this.#use(socket)
        return
      } catch {
        await sleep(RETRY_MS) // what waits meanwhile shows it
      }
    }
  }

  #use(socket: Socket): void {
    if (this.#isStopped) {
      socket.destroy()
      return
    }
    const connection: Connection = { socket, received: NOTHING, pending: undefined }
    this.#connections.add(connection)
    socket.on('data', (chunk) => this.#receive(connection, chunk))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#lose(connection))
    this.#goOn(connection)
  }

  #newRequest(due: number): Pending {
    const pending = { due, ...this.#load.request(this.#id++) }
    const { from, to, missing } = this.#window
    if (due >= from && due < to) missing.add(pending)
    return pending
  }

  #send(pending: Pending): void {
    const connection = this.#free.shift()
    if (connection) this.#write(connection, pending)
    else this.#queue.push(pending)
  }

  /** A connection is free. */
  #goOn(connection: Connection): void {
    const waiting = this.#queue.shift()
    if (waiting) this.#write(connection, waiting)
    else this.#free.push(connection)
  }

  #next(connection: Connection): void {
    this.#write(connection, this.#newRequest(performance.now()))
  }

  #write(connection: Connection, pending: Pending): void {
    connection.pending = pending
    const { path, body } = pending
    const head = `POST ${path} HTTP/1.1\r\nHost: ${this.#origin.host}\r\nContent-Type: text/plain; charset=utf-8`
    connection.socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  #receive(connection: Connection, chunk: Buffer): void {
    connection.received =
      connection.received.length === 0 ? chunk : Buffer.concat([connection.received, chunk])
    const answer = readAnswer(connection.received)
    if (!answer || !connection.pending) return
    connection.received = NOTHING
    const { pending } = connection
    connection.pending = undefined
    const isWrong = answer.status === 200 && !this.#load.isRight(pending.body, answer.body)
    const outcome = answer.status !== 200 ? 'failed' : isWrong ? 'wrong' : 'right'
    this.#count(pending, outcome, answer)
    if (this.#isStopped) return
    if (this.#load.perSecond === undefined) this.#next(connection)
    else this.#goOn(connection)
  }

  #lose(connection: Connection): void {
    this.#connections.delete(connection)
    const place = this.#free.indexOf(connection)
    if (place >= 0) this.#free.splice(place, 1)
    if (this.#isStopped) return
    if (connection.pending) this.#count(connection.pending, 'failed', LOST)
    void this.#connect().then(() => {
      const free = this.#load.perSecond === undefined ? this.#free.shift() : undefined
      if (free) this.#next(free)
    })
  }

  #count(pending: Pending, outcome: 'right' | 'wrong' | 'failed', answer: Answer): void {
    const window = this.#window
    if (!window.missing.delete(pending)) return
    window.times.push(performance.now() - pending.due)
    if (outcome === 'right') return
    window[outcome]++
    window.problem ??= `${pending.path}: ${answer.status} ${answer.body.slice(0, MAX_SHOWN)}`
  }
}

const POLL_MS = 5

const MAX_SHOWN = 200

const NOTHING = Buffer.alloc(0)

interface Connection {
  readonly socket: Socket
  received: Buffer
  pending: Pending | undefined
}

/** What is counted. */
interface Window {
  readonly from: number
  to: number
  readonly times: number[]
  readonly missing: Set<Pending>
  wrong: number
  failed: number
  problem: string | undefined
}

/** Counts nothing, unless it begins. */
function newWindow(from = Infinity): Window {
  return { from, to: Infinity, times: [], missing: new Set(), wrong: 0, failed: 0, problem: undefined }
}

interface Answer {
  readonly status: number
  readonly body: string
}

const LOST: Answer = { status: 0, body: 'the connection was lost' }

/** @returns nothing until the answer is complete. */
function readAnswer(bytes: Buffer): Answer | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const head = bytes.toString('latin1', 0, headEnd)
  const length = /\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`an answer without a length: ${head}`)
  const end = headEnd + 4 + Number(length)
  if (bytes.length < end) return undefined
  return { status: Number(head.slice(9, 12)), body: bytes.toString('utf8', headEnd + 4, end) }
}
