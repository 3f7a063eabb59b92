import { maxHeaderSize } from 'node:http'
import {
  constants,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Server } from 'node:https'
import type { FastifyBaseLogger } from 'fastify'
import { RequestTimeoutError } from '../errors/errors.ts'
import { EventRate } from '../platform/event-rate.ts'
import { keepOpenStreamsOnly } from '../platform/http2-streams.ts'
import { outlivesApp } from '../platform/lasting-responses.ts'
import { resumeHttp2Reading } from '../platform/node-workarounds.ts'
import { isStreamed } from '../route/streams/serve-streams.ts'
import { type BusyConnection, REQUEST_BYTES } from './connections.ts'
import { isUnwanted, stopClient } from './early-answer.ts'
import { Http2Request } from './http2-request.ts'
import { Http2Response } from './node-response.ts'

/** The HTTP/2 part of a server. */
export interface Http2 {
  /** Resolves when all started requests have ended. */
  over(): Promise<void>
  /** Asks clients to send new requests elsewhere. Requests that still arrive are answered. */
  announceEnd(): void
  /** The connections with requests that have not ended. */
  busy(): Iterable<BusyConnection>
  /** Accepts no more requests. Each connection ends with its last answer. */
  end(): void
}

/** In milliseconds. */
interface Http2Limits {
  /** Time for a new connection to start its first request. */
  readonly headersTimeout: number
  readonly requestTimeout: number
  readonly keepAliveTimeout: number
  readonly unreadTimeout: number
}

export type Http2Handler = (request: Http2ServerRequest, response: Http2ServerResponse) => void

/** Concurrent requests per connection. (RFC 9113, section 6.5.2, recommends at least 100) */
const MAX_STREAMS = 100

/**
 * Bytes that a client may send before the server has read them: of one body, and of all bodies of a connection while they
 * are on their way. Node's 64 KiB for both allow 1 MiB/s at 60 ms of round trip. A body that nobody reads takes as much
 * memory as the former; the latter takes none, because Node reads from the connection whatever arrives.
 */
const WINDOW = { stream: 2 ** 20, connection: 2 ** 23 }

/**
 * Headers of a request: as many as have room in a head of HTTP/1.1, where each takes at least 4 bytes. More are not decoded,
 * nor is more than the size that HTTP/2 counts for these: 32 bytes for each header besides its texts. (RFC 9113, section 6.5.2)
 */
const MAX_HEADERS = maxHeaderSize / 4

/**
 * Memory of a connection in MB at which Node refuses further requests (ENHANCE_YOUR_CALM, which clients do not repeat). Its
 * default is 10. What waits is bounded by the number of requests and by the limits of each, as over HTTP/1.1.
 */
const MAX_SESSION_MB = 2 ** 31

/** Typed as its base: otherwise the type of the responses would have to name it. */
const Request: typeof Http2ServerRequest = Http2Request

/** The largest stream id. A GOAWAY with it rejects no open stream. (RFC 9113, section 6.8) */
const MAX_STREAM_ID = 2 ** 31 - 1

/** Time for a connection accepted last to start a request. */
const FIRST_REQUEST_MS = 100

/**
 * Stream resets that a connection may have: a burst, and a rate per second. Slightly below nghttp2's limits (1,000 and
 * 33), at which it would stop reading without a JavaScript event. (CVE-2023-44487, CVE-2025-8671)
 */
const RESETS = { burst: 950, perSecond: 30 }

/**
 * Frames of a connection that ask for work and are part of no request: PING, SETTINGS, PRIORITY, GOAWAY. Clients that measure
 * the connection while they receive much send a PING for each round trip.
 */
const CONTROLS = { burst: 2_000, perSecond: 1_000 }
const CONTROL_EVENTS = ['ping', 'remoteSettings', 'priority', 'goaway']

const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM } = constants

/**
 * Adds HTTP/2 to a TLS server for connections that negotiated it. Other connections are unaffected. The server's
 * `ALPNProtocols` must contain `h2`.
 *
 * @param handler - Receives requests in the form of HTTP/1.1.
 */
export function addHttp2(
  server: Server,
  handler: Http2Handler,
  limits: Http2Limits,
  log: FastifyBaseLogger,
): Http2 {
  const sessions = new Set<ServerHttp2Session>()
  const open = new OpenResponses((session) => resets.get(session)?.add())
  const resets = new WeakMap<Http2Session, Events>()
  const controls = new WeakMap<Http2Session, Events>()
  const unread = new WeakSet<Http2ServerResponse>()
  let isEnding = false
  let isOver = false

  const http2 = createServer({
    settings: {
      maxConcurrentStreams: MAX_STREAMS,
      initialWindowSize: WINDOW.stream,
      maxHeaderListSize: MAX_HEADERS * (4 + 32),
    },
    maxSessionMemory: MAX_SESSION_MB,
    Http2ServerRequest: Request,
    Http2ServerResponse: Http2Response,
    maxHeaderListPairs: MAX_HEADERS,
  })
  http2.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    keepOpenStreamsOnly(session)
    session.setLocalWindowSize(WINDOW.connection)
    session.setTimeout(isOver ? FIRST_REQUEST_MS : limits.headersTimeout, () => session.close())
    session.once('stream', () => session.setTimeout(0)) // it would start anew at each frame
    resets.set(session, new Events(session, RESETS, 'too many of its requests were reset'))
    const control = new Events(session, CONTROLS, 'its client sends too many control frames')
    controls.set(session, control)
    for (const event of CONTROL_EVENTS) session.on(event, control.add)
    if (isEnding) announce(session)
  })
  http2.on('sessionError', ({ message }) =>
    log.debug({ reason: message }, 'closed an HTTP/2 session after an error'),
  )
  const listener: Http2Handler = (request, response) => {
    open.add(response)
    if (isOver) closeLater(request.stream.session)
    handler(request, response)
  }
  http2.on('request', listener)
  http2.on('connect', listener) // refused, as over HTTP/1.1
  http2.on('checkContinue', listener) // the body reader sends 100, as over HTTP/1.1
  http2.on('checkExpectation', listener)

  const [http1] = server.listeners('secureConnection')
  server.removeAllListeners('secureConnection')
  server.on('secureConnection', (socket) => {
    if (socket.alpnProtocol !== 'h2') return http1?.call(server, socket)
    socket.allowHalfOpen = false // an HTTP/2 client that closes its side is gone
    http2.emit('connection', socket)
  })

  const idle = new WeakMap<Http2Session, { readonly stream: number | undefined; readonly since: number }>()

  const countPriority = function (this: ServerHttp2Stream) {
    if (this.session) controls.get(this.session)?.add()
  }
  const sweep = () => {
    for (const { socket } of sessions) if (socket) resumeHttp2Reading(socket)
    closeIdle()
    for (const { response, since } of [...open]) {
      const { req, stream } = response
      // Node emits it for the stream. Most are over before a sweep: a listener for each would cost more than these frames.
      if (stream.listenerCount('priority') === 0) stream.on('priority', countPriority)
      if (isUnwanted(stream)) stopClient(stream)
      const isLate = performance.now() - since > limits.requestTimeout
      if (isLate && !response.writableEnded && !hasArrived(req) && !isStreamed(req)) refuseLate(req)
      else if (response.headersSent && isUnsent(stream)) {
        if (unread.has(response)) continue
        unread.add(response)
        stream.setTimeout(limits.unreadTimeout, cancel) // Node knows whether bytes of its connection still move
      } else if (unread.delete(response)) {
        stream.setTimeout(0, cancel) // from here on only the guest can be slow
      }
    }
  }
  const closeIdle = () => {
    const busy = new Set([...open].map(({ session }) => session))
    const now = performance.now()
    for (const session of sessions) {
      const stream = session.state.lastProcStreamID
      const known = idle.get(session)
      if (!stream || busy.has(session) || known?.stream !== stream) idle.set(session, { stream, since: now })
      else if (now - known.since > limits.keepAliveTimeout) session.close()
    }
  }
  server.on('listening', () => {
    const { requestTimeout, unreadTimeout, keepAliveTimeout } = limits
    const ms = Math.min(1_000, requestTimeout / 2, unreadTimeout / 2, keepAliveTimeout / 2)
    const timer = setInterval(sweep, ms).unref()
    server.once('close', () => clearInterval(timer))
  })

  return {
    async over() {
      const responses = [...open].map(({ response }) => response)
      await Promise.all(responses.filter((response) => !outlivesApp(response)).map(endOf))
    },
    announceEnd() {
      isEnding = true
      for (const session of sessions) announce(session)
    },
    busy: () => busyOf(open),
    end() {
      isOver = true
      for (const session of sessions) session.close()
    },
  }
}

/** A response that is open. */
interface OpenResponse {
  readonly response: Http2ServerResponse
  readonly session: Http2Session | undefined
  readonly since: number
  place: number
}

/** A list instead of a `Map`, which would keep closed ones as {@link keepOpenStreamsOnly} says. A stream's listener lets go of its entry, too. */
class OpenResponses implements Iterable<OpenResponse> {
  readonly #list: OpenResponse[] = []
  readonly #onReset: (session: Http2Session) => void

  constructor(onReset: (session: Http2Session) => void) {
    this.#onReset = onReset
  }

  add(response: Http2ServerResponse): void {
    const { stream } = response
    const open = { response, session: stream.session, since: performance.now(), place: this.#list.length }
    this.#list.push(open)
    let entry: OpenResponse | undefined = open
    stream.on('close', () => {
      if (!entry) return
      const { session } = entry
      this.#delete(entry)
      entry = undefined
      if (session && (stream.aborted || stream.rstCode !== NGHTTP2_NO_ERROR)) this.#onReset(session)
    })
  }

  #delete({ place }: OpenResponse): void {
    const last = this.#list.pop()
    if (!last || last.place === place) return
    last.place = place
    this.#list[place] = last
  }

  [Symbol.iterator](): Iterator<OpenResponse> {
    return this.#list.values()
  }
}

function busyOf(open: Iterable<OpenResponse>): Iterable<BusyConnection> {
  const bytes = new Map<Http2Session, number>()
  for (const { response, session } of open) {
    const { req, stream } = response
    if (!session) continue
    const head = req instanceof Http2Request ? req.headBytes : 0
    const body = stream.bufferSize + stream.readableLength + req.readableLength
    bytes.set(session, (bytes.get(session) ?? 0) + REQUEST_BYTES + head + body)
  }
  return [...bytes].map(([session, all]) => ({
    bytes: all,
    end: () => calm(session, 'its client does not read'),
  }))
}

/** Whether a part of an answer, if only its end, waits for the client to read. */
function isUnsent(stream: ServerHttp2Stream): boolean {
  return stream.bufferSize > 0 || (stream.writableFinished && stream.state.localClose === 0)
}

function cancel(this: ServerHttp2Stream): void {
  this.close(NGHTTP2_CANCEL)
}

/** Waits until a response has ended. A stream may outlive many apps, which share one listener. */
function endOf(response: Http2ServerResponse): Promise<void> {
  const end = ends.get(response) ?? new Promise<void>((resolve) => void response.once('close', resolve))
  ends.set(response, end)
  return end
}

const ends = new WeakMap<Http2ServerResponse, Promise<void>>()

/** Counts events of a connection that its client causes, and ends it if there are too many. */
class Events {
  readonly #session: Http2Session
  readonly #rate: EventRate
  readonly #what: string

  /** @param what - For the log. */
  constructor(session: Http2Session, { burst, perSecond }: typeof RESETS, what: string) {
    this.#session = session
    this.#rate = new EventRate(burst, perSecond)
    this.#what = what
  }

  readonly add = (): void => {
    if (!this.#rate.count()) calm(this.#session, this.#what)
  }
}

const calmed = new WeakSet<Http2Session>()

/** Ends a connection whose client takes more than its part. */
function calm(session: Http2Session, reason: string): void {
  if (calmed.has(session) || session.destroyed) return
  calmed.add(session)
  session.goaway(NGHTTP2_ENHANCE_YOUR_CALM)
  setImmediate(() => session.destroy(new Error(reason), NGHTTP2_ENHANCE_YOUR_CALM)) // without the delay, GOAWAY would be lost
}

/**
 * Closes a connection when the requests that have arrived with this one have begun. Node 20 refuses those that follow a
 * `close` in the same read, and so frees memory that it uses.
 */
function closeLater(session: Http2Session | undefined): void {
  setImmediate(() => session?.close())
}

function announce(session: ServerHttp2Session): void {
  if (!session.closed && !session.destroyed) session.goaway(NGHTTP2_NO_ERROR, MAX_STREAM_ID)
}

function hasArrived({ readableEnded, stream }: Http2ServerRequest): boolean {
  return readableEnded || stream.endAfterHeaders || stream.readableEnded
}

/** The body reader answers, if there is one. */
function refuseLate(request: Http2ServerRequest): void {
  if (request.listenerCount('error') > 0) request.emit('error', new RequestTimeoutError())
  else request.stream.close(NGHTTP2_CANCEL)
}
