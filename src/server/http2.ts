import {
  constants,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2'
import type { Server } from 'node:https'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { RequestTimeoutError } from '../errors/errors.ts'

/** The part of a server that speaks HTTP/2. */
export interface Http2 {
  /** Waits until all requests that have begun are over. */
  over(): Promise<void>
  /** Tells clients to send new requests elsewhere. Those that come all the same are answered. */
  announceEnd(): void
  /** Takes no more requests; each connection ends with its last answer. */
  end(): void
}

/** In milliseconds. */
export interface Http2Limits {
  /** How long a new connection may take to begin its first request. */
  readonly headersTimeout: number
  readonly requestTimeout: number
  readonly keepAliveTimeout: number
  readonly unreadTimeout: number
}

export type Http2Handler = (request: Http2ServerRequest, response: Http2ServerResponse) => void

/** Requests of a connection at a time. (RFC 9113, section 6.5.2, wants 100 at least) */
const MAX_STREAMS = 100

/** The largest stream that there can be: "do not send more", without "what I got". (RFC 9113, section 6.8) */
const ANY_STREAM = 2 ** 31 - 1

/** How long a connection that was accepted at the very end may take to begin a request. */
const SILENT_MS = 100

/**
 * Streams of a connection that may be reset: so many at once, and so many more a second. A little less than nghttp2
 * allows (1,000 and 33), which would stop reading without an event in JavaScript. (CVE-2023-44487, CVE-2025-8671)
 */
const RESETS = { burst: 950, perSecond: 30 }

const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM } = constants

/**
 * Makes a server speak HTTP/2 on the connections that agreed on it; all others stay as they are. Its `ALPNProtocols`
 * have to offer `h2`.
 *
 * @param handler - Gets requests that look like those of HTTP/1.1.
 */
export function addHttp2(
  server: Server,
  handler: Http2Handler,
  limits: Http2Limits,
  log: FastifyBaseLogger,
): Http2 {
  const sessions = new Set<ServerHttp2Session>()
  const open = new Map<Http2ServerResponse, number>()
  const unread = new WeakSet<Http2ServerResponse>()
  let isEnding = false
  let isOver = false

  const http2 = createServer({ settings: { maxConcurrentStreams: MAX_STREAMS } })
  http2.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    // Streams that are open have limits of their own, and begin this time anew.
    session.setTimeout(isOver ? SILENT_MS : limits.headersTimeout, () => {
      if (![...open.keys()].some(({ stream }) => stream?.session === session)) session.close()
    })
    session.once('stream', () => session.setTimeout(limits.keepAliveTimeout))
    limitResets(session)
    if (isEnding) announce(session)
  })
  http2.on('sessionError', ({ message }) => log.debug({ reason: message }, 'a client was cut off'))
  const listener: Http2Handler = (request, response) => {
    const { stream } = request
    open.set(response, performance.now())
    response.once('close', () => open.delete(response))
    // Who was answered before all was sent need not send the rest. (RFC 9113, section 8.1)
    if (!stream.endAfterHeaders)
      stream.once('finish', () => setImmediate(() => request.readableEnded || stream.close(NGHTTP2_NO_ERROR)))
    if (isOver) stream.session?.close()
    handler(asHttp1(request), response)
  }
  http2.on('request', listener)
  http2.on('checkContinue', listener) // who reads the body says so, as over HTTP/1.1

  const [http1] = server.listeners('secureConnection')
  server.removeAllListeners('secureConnection')
  server.on('secureConnection', (socket) => {
    if (socket.alpnProtocol !== 'h2') return http1?.call(server, socket)
    socket.allowHalfOpen = false // a client of HTTP/2 that ends its side is gone
    http2.emit('connection', socket)
  })

  const sweep = () => {
    for (const { socket } of sessions) if (socket) keepReading(socket)
    for (const [response, since] of open) {
      const { req, stream } = response
      if (performance.now() - since > limits.requestTimeout && !hasArrived(req)) refuseLate(req)
      else if (response.headersSent && stream.bufferSize > 0 && !unread.has(response)) {
        unread.add(response)
        stream.setTimeout(limits.unreadTimeout, () => stream.close(NGHTTP2_CANCEL)) // it knows what still moves
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
      await Promise.all(
        [...open.keys()].map((response) => new Promise((resolve) => response.once('close', resolve))),
      )
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

/** Cuts a connection off whose streams are reset too often, by either side. */
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
      setImmediate(() => session.destroy(error, NGHTTP2_ENHANCE_YOUR_CALM)) // at once, GOAWAY would be lost
    })
  })
}

/**
 * Node stops reading a connection that nghttp2 has ended by itself, such as after 1,000 resets of streams that were over
 * already. It then does not notice that the client has left, and the connection counts until its timeout. (Node 20:
 * `MaybeStopReading` in `node_http2.cc`; there is no event and no public method for it.) A connection that has bytes to
 * send is left alone: Node does not read it so that its client cannot ask for more than it takes.
 */
function keepReading(socket: Readable): void {
  if (socket._handle?.writeQueueSize === 0) socket._handle.readStart()
}

type Readable = Socket & { readonly _handle?: { readonly writeQueueSize: number; readStart(): void } | null }

function announce(session: ServerHttp2Session): void {
  if (!session.closed && !session.destroyed) session.goaway(NGHTTP2_NO_ERROR, ANY_STREAM)
}

function hasArrived({ readableEnded, stream }: Http2ServerRequest): boolean {
  return readableEnded || stream.endAfterHeaders || stream.readableEnded
}

/** Who reads the body makes the answer, if anybody does. */
function refuseLate(request: Http2ServerRequest): void {
  if (request.listenerCount('error') > 0) request.emit('error', new RequestTimeoutError())
  else request.stream.close(NGHTTP2_CANCEL)
}

/**
 * Makes a request of HTTP/2 look as it would over HTTP/1.1, so that nothing else has to know: a `Host` header, no
 * pseudo-headers, and one `Cookie`. (RFC 9113, sections 8.2.3 and 8.3.1) Only `httpVersion` tells.
 */
function asHttp1(request: Http2ServerRequest): Http2ServerRequest {
  const raw: string[] = []
  const cookies: string[] = []
  const given = request.rawHeaders
  const authority = request.headers[':authority']
  // One of them, unless they differ: then there are several, which is refused.
  if (authority !== undefined && authority !== request.headers.host) raw.push('host', authority)
  for (let i = 0; i + 1 < given.length; i += 2) {
    const name = String(given[i])
    const value = String(given[i + 1])
    if (name === 'cookie') cookies.push(value)
    else if (!name.startsWith(':')) raw.push(name, value)
  }
  if (cookies.length > 0) raw.push('cookie', cookies.join('; '))

  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !name.startsWith(':')),
  )
  if (authority !== undefined) headers.host ??= authority
  // Node derives method and URL from the headers that it has: these are put before them.
  return Object.defineProperties(request, { rawHeaders: { value: raw }, headers: { value: headers } })
}
