import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import {
  BadRequestError,
  HeadersTooLargeError,
  HttpVersionError,
  MethodNotAllowedError,
  TransferCodingError,
} from '../errors/errors.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { asHttp1Exchange } from '../platform/missing-types.ts'
import type { KnownError } from '../route/error-response.ts'
import { answerClientError, answerInTurn, type ParserError, refuse } from './client-error.ts'
import { type Connections, trackConnections, trackTlsConnections } from './connections.ts'
import { answerHalfClosed } from './half-closed.ts'
import { addHttp2, type Http2, type Http2Handler } from './http2.ts'
import { readTls } from './tls.ts'
import { cutUnread } from './unread.ts'

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Makes Node's HTTP server with the limits that it leaves open: slow clients, silent ones, those that do not read,
 * duplicate `Host` headers. Clients that do not speak HTTP get problem details too.
 */
export function createHttpServer(
  options: CheckedServerOptions,
  handler: RequestHandler,
  log: FastifyBaseLogger,
): { server: Server; connections: Connections; http2: Http2 | undefined } {
  /** Connections with an error: what else comes on them is nobody's request. */
  const broken = new WeakSet<Socket>()
  const listener: RequestHandler = (request, response) => {
    if (broken.has(request.socket)) return // its client was told that the request came too late
    connections.set(request.socket, response)
    const problem = framingProblem(request) ?? hostProblem(request)
    if (problem) {
      broken.add(request.socket) // its connection ends with this answer
      return refuse(response, problem)
    }
    handler(request, response)
  }
  const http2Listener: Http2Handler = (request, response) => {
    const asHttp1 = asHttp1Exchange(request, response)
    const problem = sizeProblem(asHttp1.request) ?? hostProblem(asHttp1.request)
    if (problem) return refuse(asHttp1.response, problem)
    handler(asHttp1.request, asHttp1.response)
  }
  const { server, connections, http2 } = open(options, listener, http2Listener, log)
  server.maxConnections = options.maxConnections
  server.maxHeadersCount = 0 // Node drops those beyond 2,000 in silence, a second Host too; 16 KiB is the limit
  server.on('checkContinue', listener) // who reads the body says so: what is refused is refused at once
  server.on('checkExpectation', (request, response) => {
    connections.set(request.socket, response)
    refuse(response, new BadRequestError('it expects something else than 100-continue'))
  })
  server.on('connect', (_request, socket: Socket) => {
    answerInTurn(new MethodNotAllowedError('CONNECT', 'POST'), socket, connections.get(socket))
  })
  server.on('clientError', (error: ParserError, socket: Socket) => {
    if (!connections.has(socket)) return socket.destroy() // it does not speak TLS
    if (broken.has(socket)) return
    broken.add(socket)
    log.debug({ code: error.code, reason: error.message }, 'a client was cut off')
    const newest = connections.get(socket)
    setImmediate(answerClientError, error, socket, newest) // answers that need no body go first
  })
  logDrops(server, options.maxConnections, log)
  cutUnread(server, connections, options.unreadTimeoutMs, log)
  answerHalfClosed(server, connections, options.unreadTimeoutMs)
  return { server, connections, http2 }
}

function open(
  options: CheckedServerOptions,
  listener: RequestHandler,
  http2Listener: Http2Handler,
  log: FastifyBaseLogger,
): { server: Server; connections: Connections; http2?: Http2 } {
  const headersTimeout = Math.min(options.headersTimeoutMs, options.requestTimeoutMs) // Node refuses more, which means the same
  const limits = {
    headersTimeout,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(1_000, headersTimeout),
    requireHostHeader: false, // checked by the listener, with a better answer
  }
  if (!options.tls) {
    const server = createServer(limits, listener)
    return { server, connections: trackConnections(server) }
  }
  const tls = { ...readTls(options.tls), handshakeTimeout: headersTimeout, allowHalfOpen: true } // as without TLS
  if (!options.http2) {
    const server = createTlsServer({ ...limits, ...tls }, listener)
    return { server, connections: trackTlsConnections(server) }
  }
  const server = createTlsServer({ ...limits, ...tls, ALPNProtocols: ['h2', 'http/1.1'] }, listener)
  const http2 = addHttp2(server, http2Listener, { ...limits, unreadTimeout: options.unreadTimeoutMs }, log)
  return { server, connections: trackTlsConnections(server), http2 }
}

/** Over HTTP/1.1 Node's parser counts. */
function sizeProblem({ rawHeaders, url = '' }: IncomingMessage): KnownError | undefined {
  let bytes = url.length
  for (const text of rawHeaders) bytes += text.length
  return bytes > MAX_HEADERS ? new HeadersTooLargeError() : undefined
}

/** Bytes of the request line and headers, as Node limits those of HTTP/1.1. */
const MAX_HEADERS = 16_384

/**
 * What Node's parser lets through: HTTP/0.9, HTTP/2.0, and codings before `chunked`, which nothing would decode. A list
 * that does not end in `chunked` it refuses itself.
 */
function framingProblem({ headers, httpVersion }: IncomingMessage): KnownError | undefined {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new HttpVersionError(`HTTP/${httpVersion}`)
  const codings = headers['transfer-encoding']?.toLowerCase()
  if (codings === undefined || !/(^|,)\s*chunked$/.test(codings)) return undefined
  if (httpVersion === '1.0') return new BadRequestError('HTTP/1.0 has no Transfer-Encoding')
  if (codings === 'chunked') return undefined
  const isOther = codings.split(',').some((name) => !['', 'chunked'].includes(name.trim()))
  return isOther ? new TransferCodingError(codings) : new BadRequestError('it is chunked more than once')
}

/** RFC 9112, section 3.2: exactly one, but HTTP/1.0 knew none. */
function hostProblem({ rawHeaders, httpVersion }: IncomingMessage): KnownError | undefined {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return undefined
  return new BadRequestError(hosts === 0 ? 'it has no Host header' : 'it has several Host headers')
}

/** Connections beyond the limit are closed by Node; a line a second says how many. */
function logDrops(server: Server, limit: number, log: FastifyBaseLogger): void {
  let dropped = 0
  server.on('drop', () => {
    if (dropped++ > 0) return
    setTimeout(() => {
      log.warn({ dropped, limit }, 'connections beyond the limit were closed')
      dropped = 0
    }, 1_000).unref()
  })
}
