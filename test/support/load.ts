import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/*
 * A load generator that compares bodies, which wrk, hey and autocannon do not: each request has a unique id,
 * and its answer must have the same id on the same connection.
 */

export interface LoadOptions {
  /** The URL of the requests, with its path. */
  readonly url: string
  /** The Unix socket of the server, if it does not use a port. */
  readonly socketPath?: string
  /** Keep-alive connections, each with one request at a time. Default: 100. */
  readonly connections?: number
  /** Pause of a connection between an answer and its next request. Default: 0. */
  readonly pauseMs?: number
  /** Creates the body for an id. Default: the id. */
  readonly body?: (id: string) => string
  /** Whether an answer belongs to the request that sent `body`. Default: it is the same. */
  readonly isAnswer?: (answer: string, body: string) => boolean
  /** Receives each answer. @param sent - The body of its request. @param ms - How long it took. */
  readonly onAnswer?: (answer: LoadAnswer, sent: string, ms: number) => void
  /** Called when a connection is refused. @returns whether the client tries again. Default: it ends. */
  readonly onRefused?: () => Promise<boolean>
}

/** The results so far. */
export interface LoadCounts {
  answers: number
  /** Answers that said `Connection: close`. */
  closing: number
  /** Answers with another request's body. */
  wrong: number
  /** Answers with a status other than 2xx. */
  non2xx: number
  /** Connections that broke with a request written and not answered, or by a reset after its answer. */
  resets: number
  /** Connections that could not be opened. */
  refused: number
}

export interface Load {
  readonly counts: Readonly<LoadCounts>
  /** Waits for so many more answers; rejects if the load ends before. */
  answered(more: number): Promise<void>
  /** Lets each client complete its requests, and waits for all. */
  stop(): Promise<LoadCounts>
  /** Resolves when every client has been refused, or was stopped. */
  readonly ended: Promise<LoadCounts>
}

/**
 * Starts clients in a closed loop. Each reconnects when the server closes or breaks its connection, until it is
 * refused.
 */
export function startLoad({
  url,
  socketPath,
  connections = 100,
  pauseMs = 0,
  body = (id) => id,
  isAnswer = (answer, body) => answer === body,
  onAnswer = () => undefined,
  onRefused = async () => false,
}: LoadOptions): Load {
  const { hostname, port, host, pathname } = new URL(url)
  const target = socketPath === undefined ? { host: hostname, port: Number(port) } : { path: socketPath }
  const counts: LoadCounts = { answers: 0, closing: 0, wrong: 0, non2xx: 0, resets: 0, refused: 0 }
  const milestones = new Set<() => void>()
  let stopped = false

  const count = (answer: LoadAnswer, sent: string) => {
    counts.answers++
    if (answer.closes) counts.closing++
    if (answer.status < 200 || answer.status > 299) counts.non2xx++
    else if (!isAnswer(answer.body, sent)) counts.wrong++
    for (const check of milestones) check()
  }

  const runClient = async (client: number) => {
    for (let serial = 0; !stopped; ) {
      const connection = await Connection.open(target)
      if (!connection) {
        counts.refused++
        if (await onRefused()) continue
        return
      }
      for (let open = true; open && !stopped; ) {
        const sent = body(`${client}-${serial++}`)
        const begun = performance.now()
        const answer = await connection.post(pathname, host, sent)
        if (answer) {
          onAnswer(answer, sent, performance.now() - begun)
          count(answer, sent)
        }
        open = answer !== undefined && !answer.closes
        if (open && pauseMs > 0) await sleep(pauseMs)
      }
      if (await connection.wasBroken()) counts.resets++
    }
  }

  const ended = Promise.all(Array.from({ length: connections }, (_, client) => runClient(client))).then(
    () => counts,
  )
  return {
    counts,
    ended,
    answered(more) {
      const goal = counts.answers + more
      const reached = new Promise<void>((resolve) => {
        const check = () => {
          if (counts.answers < goal) return
          milestones.delete(check)
          resolve()
        }
        milestones.add(check)
      })
      const never = ended.then(() => Promise.reject(new Error(`the load ended: ${JSON.stringify(counts)}`)))
      return Promise.race([reached, never])
    },
    stop() {
      stopped = true
      return ended
    },
  }
}

export interface LoadAnswer {
  readonly status: number
  readonly closes: boolean
  readonly body: string
}

/** One keep-alive connection. It never gives up by itself: every failure was caused by the server. */
class Connection {
  readonly #socket: Socket
  readonly #closed: Promise<void>
  #received: Buffer = Buffer.alloc(0)
  #broken = false
  #waiting: ((answer: LoadAnswer | undefined) => void) | undefined

  /** Resolves to nothing if the connection is refused. */
  static open(target: NetConnectOpts): Promise<Connection | undefined> {
    return new Promise((resolve) => {
      const socket = connect({ ...target, noDelay: true })
      socket.once('error', () => resolve(undefined))
      socket.once('connect', () => {
        socket.removeAllListeners('error')
        resolve(new Connection(socket))
      })
    })
  }

  constructor(socket: Socket) {
    this.#socket = socket
    this.#closed = new Promise((resolve) => socket.once('close', () => resolve()))
    socket.on('data', (chunk) => this.#receive(chunk))
    socket.on('error', () => (this.#broken = true))
    socket.on('close', () => this.#settle(undefined))
  }

  /** Resolves to nothing if the connection ends before the answer has. */
  post(path: string, host: string, body: string): Promise<LoadAnswer | undefined> {
    if (this.#socket.destroyed) {
      this.#broken = true
      return Promise.resolve(undefined)
    }
    const length = Buffer.byteLength(body)
    this.#socket.write(`POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${length}\r\n\r\n${body}`)
    return new Promise((resolve) => (this.#waiting = resolve))
  }

  /** Ends the connection, or waits until the server has. */
  async wasBroken(): Promise<boolean> {
    this.#socket.end()
    await this.#closed
    return this.#broken
  }

  #receive(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    const headersEnd = this.#received.indexOf('\r\n\r\n')
    if (headersEnd < 0) return
    const head = this.#received.toString('latin1', 0, headersEnd)
    const length = /^content-length: (\d+)/im.exec(head)?.[1]
    if (length === undefined) throw new Error(`an answer without a length: ${head}`)
    const end = headersEnd + 4 + Number(length)
    if (this.#received.length < end) return
    const body = this.#received.toString('utf8', headersEnd + 4, end)
    this.#received = this.#received.subarray(end)
    this.#settle({ status: Number(head.slice(9, 12)), closes: /^connection: close/im.test(head), body })
  }

  #settle(answer: LoadAnswer | undefined): void {
    if (this.#waiting && answer === undefined) this.#broken = true
    this.#waiting?.(answer)
    this.#waiting = undefined
  }
}
