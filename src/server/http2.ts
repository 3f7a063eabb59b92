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
import { outlivesApp } from '../platform/lasting-responses.ts'
import { resumeHttp2Reading } from '../platform/node-workarounds.ts'
import { discardRest } from '../platform/unread-body.ts'
import { isStreamed } from '../route/streams/serve-streams.ts'
import { Http2Request } from './http2-request.ts'
import { Http2Response } from './node-response.ts'

/** The HTTP/2 part of a server. */
export interface Http2 {
  /** Resolves when all started requests have ended. */
  over(): Promise<void>
  /** Asks clients to send new requests elsewhere. Requests that still arrive are answered. */
  announceEnd(): void
  /** Accepts no more requests. Each connection ends with its last answer. */
  end(): void
}

/** In milliseconds. */
export interface Http2Limits {
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

/** Bytes of a body that a client may still send when it has the answer. */
const MAX_REST = 2 ** 24

/**
 * Memory of a connection in MB at which Node refuses further requests (ENHANCE_YOUR_CALM, which clients do not repeat). Its
 * default is 10. What waits is bounded by the number of requests and by the limits of each, as over HTTP/1.1.
 */
const MAX_SESSION_MB = 2 ** 31

/** The largest stream id. A GOAWAY with it rejects no open stream. (RFC 9113, section 6.8) */
const MAX_STREAM_ID = 2 ** 31 - 1

/** Time for a connection accepted last to start a request. */
const FIRST_REQUEST_MS = 100

/**
 * Stream resets that a connection may have: a burst, and a rate per second. Slightly below nghttp2's limits (1,000 and
 * 33), at which it would stop reading without a JavaScript event. (CVE-2023-44487, CVE-2025-8671)
 */
const RESETS = { burst: 950, perSecond: 30 }

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
  const open = new OpenResponses()
  const unread = new WeakSet<Http2ServerResponse>()
  /** Those whose client shall not send the rest of its body. */
  const unwanted = new WeakSet<ServerHttp2Stream>()
  let isEnding = false
  let isOver = false

  const http2 = createServer({
    settings: { maxConcurrentStreams: MAX_STREAMS, initialWindowSize: WINDOW.stream },
    maxSessionMemory: MAX_SESSION_MB,
    Http2ServerRequest: Http2Request,
    Http2ServerResponse: Http2Response,
    maxHeaderListPairs: maxHeaderSize, // the size of the head is limited, not the number of headers
  })
  http2.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    session.setLocalWindowSize(WINDOW.connection)
    // Open streams have their own limits and restart this timer.
    session.setTimeout(isOver ? FIRST_REQUEST_MS : limits.headersTimeout)
    session.on('timeout', () => {
      if (![...open].some(({ response }) => response.stream?.session === session)) session.close()
    })
    session.once('stream', () => session.setTimeout(limits.keepAliveTimeout))
    limitResets(session)
    if (isEnding) announce(session)
  })
  http2.on('sessionError', ({ message }) =>
    log.debug({ reason: message }, 'closed an HTTP/2 session after an error'),
  )
  const listener: Http2Handler = (request, response) => {
    const { stream } = request
    const entry = open.add(response)
    response.once('close', () => open.delete(entry))
    if (!stream.endAfterHeaders) {
      if (request.method === 'HEAD')
        unwanted.add(stream) // there Node emits `finish` before the answer
      else stream.once('finish', () => endEarly(request))
    }
    if (isOver) closeLater(stream.session)
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

  /** Ends a request whose answer came before the end of its body. */
  const endEarly = async (request: Http2ServerRequest) => {
    if (!request.complete) await discardRest(request, { bytes: MAX_REST })
    if (request.complete) return
    request.pause()
    unwanted.add(request.stream)
    setImmediate(stopClient, request.stream)
  }

  const sweep = () => {
    for (const { socket } of sessions) if (socket) resumeHttp2Reading(socket)
    for (const { response, since } of [...open]) {
      const { req, stream } = response
      if (unwanted.has(stream)) stopClient(stream)
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
  server.on('listening', () => {
    const { requestTimeout, unreadTimeout } = limits
    const timer = setInterval(sweep, Math.min(1_000, requestTimeout / 2, unreadTimeout / 2)).unref()
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
    end() {
      isOver = true
      for (const session of sessions) session.close()
    },
  }
}

/** A response that is open. */
interface OpenResponse {
  readonly response: Http2ServerResponse
  readonly since: number
  place: number
}

/**
 * Not a `Map`: when a map makes a new table, the old one keeps what was in it, and the new table. So once V8 has moved a table to
 * the old generation, all requests would live until the next major garbage collection.
 */
class OpenResponses implements Iterable<OpenResponse> {
  readonly #list: OpenResponse[] = []

  add(response: Http2ServerResponse): OpenResponse {
    const entry = { response, since: performance.now(), place: this.#list.length }
    this.#list.push(entry)
    return entry
  }

  delete({ place }: OpenResponse): void {
    const last = this.#list.pop()
    if (!last || last.place === place) return
    last.place = place
    this.#list[place] = last
  }

  [Symbol.iterator](): Iterator<OpenResponse> {
    return this.#list.values()
  }
}

/**
 * Asks the client of a complete answer not to send the rest of its body. Before the frame with END_STREAM has left, the
 * reset would break off the answer. (RFC 9113, section 8.1) That frame can wait for the client's window, after `finish`.
 */
function stopClient(stream: ServerHttp2Stream): void {
  if (stream.state.localClose === 1) stream.close(NGHTTP2_NO_ERROR)
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

/** Closes a connection whose streams are reset too often, by either side. */
function limitResets(session: ServerHttp2Session): void {
  let left = RESETS.burst
  let since = performance.now()
  let isCut = false
  session.on('stream', (stream) => {
    stream.once('close', () => {
      if (!stream.aborted && stream.rstCode === NGHTTP2_NO_ERROR) return
      const now = performance.now()
      left = Math.min(RESETS.burst, left + ((now - since) / 1_000) * RESETS.perSecond) - 1
      since = now
      if (left >= 0 || isCut || session.destroyed) return
      isCut = true
      session.goaway(NGHTTP2_ENHANCE_YOUR_CALM)
      const error = new Error('too many of its requests were reset')
      setImmediate(() => session.destroy(error, NGHTTP2_ENHANCE_YOUR_CALM)) // without the delay, GOAWAY would be lost
    })
  })
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
