import {
  createServer,
  type IncomingMessage,
  METHODS,
  maxHeaderSize,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import {
  BadRequestError,
  BodyTooLargeError,
  ExpectationFailedError,
  HeadersTooLargeError,
  HttpVersionError,
  MethodNotAllowedError,
  RequestTimeoutError,
  TransferCodingError,
} from '../errors/errors.ts'
import { newRequestId, requestId } from '../observe/log/request-log.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { asHttp1Exchange } from '../platform/missing-types.ts'
import { breakOff, bytesTaken, closeAfterRequest, keepRecordsOfPaused } from '../platform/node-workarounds.ts'
import { processPartials } from '../platform/partial-bytes.ts'
import { type KnownError, PROBLEM_TYPE, problemDetails, sendAndClose } from '../route/error-response.ts'
import { isStreamed } from '../route/streams/serve-streams.ts'
import { addHttp2, type Http2, type Http2Handler } from './http2.ts'
import { Http1Response, isOver } from './node-response.ts'
import { targetProblem } from './request-target.ts'
import { readTls, type TlsSettings } from './tls.ts'
import { type BusyConnection, limitUnread, REQUEST_BYTES } from './unread-bytes.ts'

/** The options of the server, and those of its files that were read before. */
export interface HttpServerOptions extends CheckedServerOptions {
  /** Default: the files are read. */
  readonly readTls?: TlsSettings | undefined
}

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Creates Node's HTTP server with additional limits: slow clients, silent clients, clients that do not read, invalid
 * hosts. Malformed requests get problem details too.
 */
export function createHttpServer(
  options: HttpServerOptions,
  handler: RequestHandler,
  log: FastifyBaseLogger,
): { server: Server; connections: Connections; http2: Http2 | undefined } {
  if (options.maxPartialBytes !== undefined) processPartials.limit(options.maxPartialBytes)
  /** Connections with an error: further bytes on them are not requests. */
  const broken = new WeakSet<Socket>()
  const pipelined = new Pipelined()
  const listener: RequestHandler = (request, response) => {
    if (broken.has(request.socket)) return // its client already got the timeout answer
    const before = connections.get(request.socket)
    if (before && !isHandedOver(before)) pipelined.add(before)
    connections.set(request.socket, response)
    const problem = requestProblem(request)
    if (problem) {
      broken.add(request.socket) // its connection ends with this answer
      return refuse(response, problem)
    }
    handler(request, response)
  }
  const http2Listener: Http2Handler = (request, response) => {
    const asHttp1 = asHttp1Exchange(request, response)
    const { request: asked } = asHttp1
    const problem =
      sizeProblem(asked) ?? methodProblem(asked) ?? targetProblem(asked) ?? expectationProblem(asked)
    if (problem) return refuse(asHttp1.response, problem)
    if (request.method === 'CONNECT')
      return refuse(asHttp1.response, new MethodNotAllowedError('CONNECT', 'POST'))
    handler(asHttp1.request, asHttp1.response)
  }
  const { server, connections, http2 } = openNodeServer(options, listener, http2Listener, log)
  server.maxConnections = options.maxConnections
  server.maxHeadersCount = 0 // Node silently drops headers beyond 2,000, even a second Host; the limit of 16 KiB remains
  server.on('checkContinue', listener) // the body reader sends 100, so that a refusal needs no body
  server.on('checkExpectation', listener)
  server.on('connect', (_request, socket: Socket) => {
    answerInTurn(new MethodNotAllowedError('CONNECT', 'POST'), socket, connections.get(socket))
  })
  server.on('clientError', (error: ParserError, socket: Socket) => {
    if (!connections.has(socket)) return socket.destroy() // it does not speak TLS
    if (broken.has(socket)) return
    const newest = connections.get(socket)
    // Its guest reads the body, and has time limits of its own.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && newest && isStreamed(newest.req)) return
    broken.add(socket)
    log.debug({ code: error.code, reason: error.message }, 'closed a connection after a client error')
    setImmediate(answerClientError, error, socket, newest) // answers that need no body go first
  })
  logDrops(server, options.maxConnections, log)
  cutUnread(server, connections, options.unreadTimeoutMs, log)
  answerHalfClosed(server, connections, options.unreadTimeoutMs)
  const busy = () => [...busyOf(connections, pipelined), ...(http2?.busy() ?? [])]
  limitUnread(server, busy, log, options.maxUnreadBytes)
  return { server, connections, http2 }
}

function openNodeServer(
  options: HttpServerOptions,
  listener: RequestHandler,
  http2Listener: Http2Handler,
  log: FastifyBaseLogger,
): { server: Server; connections: Connections; http2?: Http2 } {
  const headersTimeout = Math.min(options.headersTimeoutMs, options.requestTimeoutMs) // Node rejects larger values, which have the same effect
  const limits = {
    headersTimeout,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(1_000, headersTimeout),
    requireHostHeader: false, // checked by the listener, with a better answer
    ServerResponse: Http1Response,
  }
  if (!options.tls) {
    const server = createServer(limits, listener)
    return { server, connections: trackConnections(server) }
  }
  const read = options.readTls ?? readTls(options.tls)
  const tls = { ...read, handshakeTimeout: headersTimeout, allowHalfOpen: true } // as without TLS
  const ALPNProtocols = ['http/1.1', 'http/1.0'] // without a list, Node refuses clients that announce only the latter
  if (!options.http2) {
    const server = createTlsServer({ ...limits, ...tls, ALPNProtocols }, listener)
    return { server, connections: trackTlsConnections(server) }
  }
  const server = createTlsServer({ ...limits, ...tls, ALPNProtocols: ['h2', ...ALPNProtocols] }, listener)
  const http2 = addHttp2(server, http2Listener, { ...limits, unreadTimeout: options.unreadTimeoutMs }, log)
  return { server, connections: trackTlsConnections(server), http2 }
}

/** Why a request of HTTP/1 is refused although Node has parsed it. See {@link targetProblem}. */
export function requestProblem(request: IncomingMessage): KnownError | undefined {
  return framingProblem(request) ?? targetProblem(request) ?? expectationProblem(request)
}

/** Finds an expectation that cannot be met. In HTTP/1.0 the header has no meaning. (RFC 9110, section 10.1.1) */
function expectationProblem({ headers, httpVersion }: IncomingMessage): KnownError | undefined {
  const { expect } = headers
  if (expect === undefined || httpVersion === '1.0' || /^100-continue(?:, *100-continue)*$/i.test(expect))
    return undefined
  return new ExpectationFailedError(expect)
}

/** Over HTTP/1.1, Node's parser refuses these. */
function methodProblem({ method = '' }: IncomingMessage): KnownError | undefined {
  return KNOWN_METHODS.has(method) ? undefined : new BadRequestError('its method is unknown')
}

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)

/** Over HTTP/1.1, Node's parser enforces this limit. */
function sizeProblem({ rawHeaders, url = '' }: IncomingMessage): KnownError | undefined {
  let bytes = url.length
  for (const text of rawHeaders) bytes += text.length
  return bytes > maxHeaderSize ? new HeadersTooLargeError(maxHeaderSize) : undefined
}

/**
 * Rejects requests that Node's parser accepts: HTTP/0.9, HTTP/2.0, and codings before `chunked`, which are not
 * decoded. Node itself rejects a list that does not end in `chunked`.
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

/** Node closes connections beyond the limit. One log line per second has their number. */
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

/** How often half-closed clients are probed. It takes two probes: the system rejects data after the first. */
const PROBE_MS = 1_000

/**
 * Answers clients that close their side of the connection after their request, such as `nc -N`, even if the answer
 * takes time. Node would close the connection unless the answer was sent immediately.
 *
 * A client that is gone looks the same. So while a request has no answer, the server sends `102 Processing`, which
 * HTTP/1.1 clients skip (RFC 9110, section 15.2). The system of a client that is gone rejects it: the connection is then
 * destroyed, and a call that waits for an instance is not run.
 *
 * @param probeMs - Maximum interval between two probes.
 */
function answerHalfClosed(server: Server, connections: Connections, probeMs: number): void {
  Object.assign(server, { httpAllowHalfOpen: true }) // an undocumented property of Node's http and https servers

  const probe = () => {
    for (const [socket, newest] of connections) {
      const isWaiting = newest?.socket === socket && !newest.headersSent && newest.req.httpVersion === '1.1'
      if (isWaiting && socket.readableEnded && socket.writable) newest.writeProcessing()
    }
  }
  server.on('listening', () => {
    const timer = setInterval(probe, Math.min(PROBE_MS, probeMs)).unref()
    server.once('close', () => clearInterval(timer))
  })
}

/**
 * Closes connections of clients that do not read their answers; Node would wait forever. It polls the connections, so
 * requests have no overhead.
 *
 * @param timeoutMs - Maximum time without progress on a connection that has bytes to send.
 */
function cutUnread(
  server: Server,
  connections: Connections,
  timeoutMs: number,
  log: FastifyBaseLogger,
): void {
  const behind = new WeakMap<Socket, { taken: number; since: number }>()

  const sweep = () => {
    const now = performance.now()
    for (const [socket, newest] of connections) {
      if (socket.writableLength === 0) {
        behind.delete(socket)
        continue
      }
      const taken = bytesTaken(socket)
      const last = behind.get(socket)
      if (!last) log.debug({ bytes: socket.writableLength }, 'a client reads its response slowly')
      if (last?.taken !== taken) behind.set(socket, { taken, since: now })
      else if (now - last.since >= timeoutMs) breakOff(socket, newest)
    }
  }

  server.on('listening', () => {
    // After the event loop has written: it may have been blocked.
    const timer = setInterval(() => setImmediate(sweep), Math.min(1_000, timeoutMs / 2)).unref()
    server.once('close', () => clearInterval(timer))
  })
}

/** Whether the connection has all of a response. With TLS, its client has often read it before it is finished. */
function isHandedOver(response: ServerResponse): boolean {
  return response.writableFinished || (response.writableEnded && response.socket !== null)
}

/** Responses that have to wait for their client to read an earlier one. Each entry lasts until a sweep and becomes old. */
class Pipelined {
  readonly #ofSockets = new WeakMap<Socket, ServerResponse[]>()

  /** @param response - Another one of its connection follows. */
  add(response: ServerResponse): void {
    const { socket } = response.req
    const others = this.#ofSockets.get(socket)
    if (others) others.push(response)
    else this.#ofSockets.set(socket, [response])
  }

  /** The responses of a connection that have not ended, without the last one. */
  of(socket: Socket): readonly ServerResponse[] {
    const all = this.#ofSockets.get(socket)
    if (!all) return []
    const left = all.filter((response) => !isOver(response))
    this.#ofSockets.set(socket, left)
    return left
  }
}

function* busyOf(connections: Connections, pipelined: Pipelined): Generator<BusyConnection> {
  for (const [socket, newest] of connections) {
    if (!newest) continue
    let bytes = socket.writableLength + socket.readableLength
    for (const response of [...pipelined.of(socket), newest]) {
      if (isOver(response)) continue
      bytes += REQUEST_BYTES + response.req.readableLength
      if (!response.socket) bytes += response.writableLength // it waits for an earlier one
    }
    if (bytes > 0) yield { bytes, end: () => breakOff(socket, newest) }
  }
}

/** The open connections of a server, each with its latest response if it has carried a request. */
export type Connections = Map<Socket, ServerResponse | undefined>

/** Tracks the connections of a server. The request listener records each response. */
function trackConnections(server: Server): Connections {
  const connections: Connections = new Map()
  server.on('connection', (socket: Socket) => add(connections, socket))
  return connections
}

/**
 * The same for TLS, where requests arrive on a TLS socket and not on the accepted one. The accepted socket is tracked
 * until the handshake is complete.
 */
function trackTlsConnections(server: Server): Connections {
  keepRecordsOfPaused(server)
  const connections: Connections = new Map()
  const accepted = new Map<string, Socket>()
  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket)
    add(connections, socket)
    accepted.set(peer, socket)
    socket.once('close', () => {
      if (accepted.get(peer) === socket) accepted.delete(peer)
    })
  })
  server.on('secureConnection', (socket: Socket) => {
    const before = accepted.get(peerOf(socket))
    if (before) connections.delete(before)
    add(connections, socket)
  })
  return connections
}

function add(connections: Connections, socket: Socket): void {
  connections.set(socket, undefined)
  closeAfterRequest(socket, () => connections.get(socket)?.req)
  socket.once('close', () => connections.delete(socket))
}

/** Names a peer, which has one connection at a time. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

/** An error of the HTTP parser. Its `reason` is one of several fixed texts. */
type ParserError = NodeJS.ErrnoException & { readonly reason?: string }

/** Answers a client that sends malformed HTTP, or sends it too slowly. */
function answerClientError(
  parserError: ParserError,
  socket: Socket,
  newest: ServerResponse | undefined,
): void {
  answerInTurn(toKnownError(parserError), socket, newest)
}

/** Answers with an error after the answers to earlier requests, and closes the connection. */
function answerInTurn(error: KnownError, socket: Socket, newest: ServerResponse | undefined): void {
  const isUnfinished = newest !== undefined && !newest.writableFinished
  const isInBody = newest !== undefined && !newest.req.complete
  if (isInBody && newest.headersSent && isStreamed(newest.req)) newest.req.emit('error', error) // the guest reads it
  if (isInBody && !newest.headersSent) {
    // The body reader answers; Node sends the answer in order.
    if (newest.req.listenerCount('error') > 0) newest.req.emit('error', error)
    else refuse(newest, error)
  } else if (isUnfinished) {
    newest.once('close', () => endSocket(socket, isInBody ? undefined : error))
  } else {
    endSocket(socket, isInBody ? undefined : error)
  }
}

function toKnownError(error: ParserError): KnownError {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RequestTimeoutError()
    case 'HPE_HEADER_OVERFLOW':
      return new HeadersTooLargeError(maxHeaderSize)
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new BodyTooLargeError('the limit of 16 KiB for chunk extensions')
    case 'HPE_INVALID_VERSION':
      // Node uses the same code for a malformed version.
      if (error.reason === 'Invalid HTTP version') return new HttpVersionError('an unsupported HTTP version')
      return new BadRequestError(error.reason ?? 'it is not HTTP/1.1')
    default:
      return new BadRequestError(error.reason ?? 'it is not HTTP/1.1')
  }
}

/** How long a client of malformed HTTP may continue to send before its connection is closed, in milliseconds. */
export const LINGER_MS = 1_000

/** @param error - undefined if the client already has its answer. */
function endSocket(socket: Socket, error: KnownError | undefined): void {
  if (!socket.writable) return // the client is gone, or the last answer closes the connection
  // Keep reading instead of destroying the socket, to detect the client's end; see `sendAndClose`.
  socket.resume()
  socket.end(error ? renderAnswer(error) : '', () => {
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => clearTimeout(timer))
  })
}

/** Rejects a request and closes its HTTP/1 connection. */
function refuse(response: ServerResponse, error: KnownError): void {
  const { headers, body } = problemAnswer(error, requestId(response.req))
  if ('stream' in response.req) {
    // Over HTTP/2, whatever an HTTP/1 request line says.
    const { connection: _, ...allowed } = headers // other streams use the connection
    response.writeHead(error.statusCode, allowed).end(body)
    return
  }
  response.writeHead(error.statusCode, headers)
  sendAndClose(response, body)
}

function renderAnswer(error: KnownError): string {
  const { headers, body } = problemAnswer(error, newRequestId())
  const all = { ...headers, date: new Date().toUTCString() } // Node adds it to other answers
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${error.statusCode} ${STATUS_CODES[error.statusCode]}\r\n${lines.join('')}\r\n${body}`
}

function problemAnswer(error: KnownError, id: string) {
  const body = Buffer.from(JSON.stringify(problemDetails(error, id)))
  const headers = {
    'content-type': PROBLEM_TYPE,
    'content-length': body.length,
    'x-request-id': id,
    'x-content-type-options': 'nosniff',
    connection: 'close',
    ...error.headers,
  }
  return { headers, body }
}
