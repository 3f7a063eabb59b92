import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { processReads } from '../../engine/turn-scheduler.ts'
import type { SocketStats } from '../../observe/counters.ts'
import type { RouteMeter } from '../../observe/metrics.ts'
import { bytesTaken } from '../../platform/node-workarounds.ts'
import type { KnownError } from '../error-response.ts'
import { Arrivals } from './arrivals.ts'
import { closeCodeOf, violationCodeOf } from './close-codes.ts'

/** The options of a route that limit its connections. */
export interface ConnectionLimits {
  /** Maximum bytes of a received message. */
  readonly bodyLimit: number
  /** Bytes of received messages that wait, and of sent ones that the client has not read. */
  readonly streamBuffer: number
  /** Interval of pings, in which a client must have answered the last one; 0: none. */
  readonly websocketPingMs: number
  /** Maximum time without a message in either direction; 0: no limit. */
  readonly websocketIdleMs: number
  /** Maximum time in which a client reads nothing of what waits for it. */
  readonly unreadTimeoutMs: number
  /** Maximum time in which a message arrives, from its first byte to its last. */
  readonly requestTimeoutMs: number
}

/** A message of a WebSocket. */
interface Message {
  /** Bytes in a buffer of their own. */
  readonly bytes: Uint8Array
  readonly isText: boolean
}

/** How long a client may take to answer a closing frame. */
const CLOSE_MS = 2_000

/** Memory of a waiting message besides its bytes. */
const MESSAGE_BYTES = 128

/** The maximum of a reason in a closing frame. (RFC 6455, section 5.5) */
const REASON_BYTES = 123

/**
 * A WebSocket whose memory is bounded: it reads no more while messages wait, and {@link Connection.send} waits while
 * the client reads slowly. A client that does not answer a ping is disconnected.
 */
export class Connection implements SocketStats {
  readonly #socket: WebSocket
  readonly #raw: Socket
  readonly #limits: ConnectionLimits
  readonly #meter: RouteMeter | undefined
  readonly #queue: Message[] = []
  readonly #waiting = new Set<() => void>()
  readonly #arrivals: Arrivals
  readonly #pings: NodeJS.Timeout | undefined
  readonly #idle: NodeJS.Timeout | undefined
  #queued = 0
  /** Messages wait. */
  #isPaused = false
  /** Whether reading pauses so that other connections have their turn. */
  #isResting = false
  /** The newest ping without an answer. */
  #pinged: Buffer | undefined
  #isAlive = true
  #isRetired = false
  #goneAt: number | undefined
  #closeCode: number | undefined
  #received = 0
  #sent = 0
  #receivedMessages = 0
  #sentMessages = 0

  /** @param raw - The connection below. @param meter - Counts, if metrics are enabled. */
  constructor(socket: WebSocket, raw: Socket, limits: ConnectionLimits, meter: RouteMeter | undefined) {
    this.#socket = socket
    this.#raw = raw
    this.#limits = limits
    this.#meter = meter
    meter?.countSockets('opened')
    socket
      .on('error', (error) => this.#close(violationCodeOf(error)))
      .on('message', (data, isBinary) => this.#receive(Buffer.isBuffer(data) ? data : NO_BYTES, !isBinary))
      .on('ping', (data) => this.#answerPing(data))
      .on('pong', () => {
        if (this.#isAlive) this.#arrivals.countControl()
        this.#isAlive = true
      })
      .once('close', (code) => this.#closed(code))
    this.#arrivals = new Arrivals(raw, limits.requestTimeoutMs, {
      refuse: (error) => this.#refuse(error),
      rest: () => this.#rest(),
    })
    const { websocketPingMs: pingMs, websocketIdleMs: idleMs } = limits
    // After the event loop has read: it may have been blocked since the answer arrived.
    if (pingMs > 0) this.#pings = setInterval(() => setImmediate(() => this.#ping()), pingMs)
    if (idleMs > 0) this.#idle = setTimeout(() => this.end(1001, IDLE), idleMs)
  }

  get received(): number {
    return this.#received
  }

  get sent(): number {
    return this.#sent
  }

  get receivedMessages(): number {
    return this.#receivedMessages
  }

  get sentMessages(): number {
    return this.#sentMessages
  }

  get closeCode(): number | undefined {
    return this.#closeCode
  }

  /** Whether nothing can be sent any more: an end has closed the connection, or it is lost, or its route is being closed. */
  get isOver(): boolean {
    return this.#goneAt !== undefined
  }

  /** How long it has been over, in ms. */
  get overMs(): number {
    return this.#goneAt === undefined ? 0 : performance.now() - this.#goneAt
  }

  /** Whether {@link Connection.retire} has been called. */
  get isRetired(): boolean {
    return this.#isRetired
  }

  /** Whether it ended without the closing handshake. What the client has sent before a clean end counts. */
  get isLost(): boolean {
    return this.#closeCode === 1006
  }

  /** The next message, in order; undefined after the last one. */
  async take(): Promise<Message | undefined> {
    while (!this.#isRetired) {
      const message = this.#queue.shift()
      if (message) {
        this.#queued -= message.bytes.length + MESSAGE_BYTES
        if (this.#queued <= this.#limits.streamBuffer / 2) this.#resume()
        return message
      }
      if (this.isOver) return undefined
      await this.news()
    }
    return undefined
  }

  /**
   * Sends a message. Waits while more than `streamBuffer` bytes are unread.
   *
   * @returns false if it cannot be sent any more.
   */
  async send(bytes: Uint8Array, isText: boolean): Promise<boolean> {
    if (this.#socket.readyState !== OPEN) return false
    this.#sent += bytes.length
    this.#sentMessages++
    this.#meter?.countSockets('messagesOut')
    this.#meter?.countSockets('bytesOut', bytes.length)
    this.#idle?.refresh()
    this.#socket.send(bytes, { binary: !isText }, () => this.#notify())
    if (this.#isBehind) await this.#caughtUp(this.#limits.streamBuffer)
    return this.#socket.readyState === OPEN
  }

  /** Waits until fewer bytes are unread, and disconnects a client that reads nothing. */
  async #caughtUp(max: number): Promise<void> {
    let taken = bytesTaken(this.#raw)
    const check = () => {
      if (bytesTaken(this.#raw) === taken) this.terminate()
      taken = bytesTaken(this.#raw)
    }
    const timer = setInterval(check, this.#limits.unreadTimeoutMs)
    while (this.#socket.bufferedAmount > max && this.#socket.readyState === OPEN) await this.news()
    clearInterval(timer)
  }

  /** Waits for a change, for this time at most. Default: no limit. */
  async news(ms?: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = ms === undefined ? undefined : setTimeout(wake, Math.ceil(ms))
      this.#waiting.add(wake)
    })
  }

  /** Lets the message in hand be answered, and gives out no others. Then {@link Connection.end} it. */
  retire(): void {
    this.#isRetired = true
    this.#goneAt ??= performance.now()
    this.#notify()
  }

  /** Closes it after the client has read what was sent: it may be slower than the closing handshake may be. */
  async finish(code: number, reason: string): Promise<void> {
    await this.#caughtUp(0)
    this.end(code, reason)
  }

  /** Closes it with a code and a reason, of which the first 123 bytes count. Messages that wait are dropped. */
  end(code: number, reason: string): void {
    if (this.#socket.readyState !== OPEN) return
    this.#socket.close(code, shorten(reason))
    this.#close(code)
  }

  /** Ends it without a closing frame. */
  terminate(): void {
    this.#closeCode ??= 1006
    this.#socket.terminate()
  }

  /** Resolves when it is closed. */
  async closed(): Promise<void> {
    while (this.#socket.readyState !== CLOSED) await this.news()
  }

  get #isBehind(): boolean {
    return this.#socket.bufferedAmount > this.#limits.streamBuffer
  }

  #receive(data: Buffer, isText: boolean): void {
    this.#isAlive = true
    this.#received += data.length
    this.#receivedMessages++
    this.#meter?.countSockets('messagesIn')
    this.#meter?.countSockets('bytesIn', data.length)
    if (this.isOver) return
    if (data.length > this.#limits.bodyLimit) {
      this.end(1009, '') // the package of the user's app allows more
      return
    }
    this.#idle?.refresh()
    this.#queue.push({ bytes: new Uint8Array(data), isText }) // `data` is a part of what the socket has read
    this.#queued += data.length + MESSAGE_BYTES
    if (this.#queued > this.#limits.streamBuffer && !this.#isPaused) {
      this.#pause()
    }
    this.#notify()
  }

  #pause(): void {
    this.#isPaused = true
    this.#arrivals.pause()
    this.#socket.pause()
  }

  #resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#isAlive = true
    this.#arrivals.resume()
    if (!this.#isResting) this.#socket.resume()
  }

  /** Reads on when it has its turn. */
  #rest(): void {
    if (this.#isResting) return
    this.#isResting = true
    this.#socket.pause()
    processReads.wait(() => {
      this.#isResting = false
      if (!this.#isPaused) this.#socket.resume()
    })
  }

  /** Ends a connection whose client does what no client needs to do, or lets the last call answer. Nothing more is read. */
  #refuse(error: KnownError): void {
    if (!this.#isRetired) this.end(closeCodeOf(error), error.code)
    this.#pause()
    if (error.statusCode === 503) this.#raw.destroySoon() // others need its memory
  }

  /**
   * Of many pings that are read together, the newest is answered (RFC 6455, section 5.5.3). A client that does not read
   * gets no answer.
   */
  #answerPing(data: Buffer): void {
    this.#isAlive = true
    if (this.#socket.readyState !== OPEN) return
    this.#arrivals.countControl()
    if (!this.#pinged)
      queueMicrotask(() => {
        if (this.#pinged && !this.#isBehind && this.#socket.readyState === OPEN)
          this.#socket.pong(this.#pinged)
        this.#pinged = undefined
      })
    this.#pinged = data
  }

  /** An answer cannot be seen while nothing is read. */
  #ping(): void {
    if (this.#isPaused) return
    if (!this.#isAlive) this.terminate()
    else if (this.#socket.readyState === OPEN) {
      this.#isAlive = false
      this.#socket.ping()
    }
  }

  /** The closing handshake has begun: the client's part of it has to be read. */
  #close(code: number): void {
    this.#closeCode ??= code
    this.#goneAt ??= performance.now()
    this.#queue.length = 0
    this.#arrivals.close()
    this.#resume()
    const timer = setTimeout(() => this.#socket.terminate(), CLOSE_MS)
    this.#socket.once('close', () => clearTimeout(timer))
    this.#notify()
  }

  #closed(code: number): void {
    this.#closeCode ??= code
    this.#goneAt ??= performance.now()
    if (this.isLost) this.#queue.length = 0
    clearInterval(this.#pings)
    clearTimeout(this.#idle)
    this.#meter?.countClosed(this.#closeCode)
    this.#notify()
  }

  #notify(): void {
    for (const wake of [...this.#waiting]) wake()
  }
}

const OPEN = 1
const CLOSED = 3
const NO_BYTES = Buffer.alloc(0)
const IDLE = 'idle'

/** Cuts a text where a character ends. */
function shorten(reason: string): string {
  const { read } = new TextEncoder().encodeInto(reason, new Uint8Array(REASON_BYTES))
  return reason.slice(0, read)
}
