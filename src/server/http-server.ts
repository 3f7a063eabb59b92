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
import { isHost } from '../platform/host-header.ts'
import { asHttp1Exchange } from '../platform/missing-types.ts'
import { processPartials } from '../platform/partial-bytes.ts'
import { type KnownError, PROBLEM_TYPE, problemDetails, sendAndClose } from '../route/error-response.ts'
import { isStreamed } from '../route/streams/serve-streams.ts'
import {
  answerHalfClosed,
  busyOf,
  type Connections,
  cutUnread,
  limitUnread,
  logDrops,
  Pipelined,
  trackConnections,
  trackTlsConnections,
} from './connections.ts'
import { addHttp2, type Http2, type Http2Handler } from './http2.ts'
import { Http1Response } from './node-response.ts'
import { readTls, type TlsSettings } from './tls.ts'

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
    if (before) pipelined.add(before)
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

/**
 * Checks the target and the `Host` header of a request. A target that is a whole URL, as for a proxy, becomes its path, and
 * its host becomes the `Host` header: so routes, guests and logs see one host. (RFC 9112, section 3.2)
 *
 * @returns why the request is refused.
 */
function targetProblem(request: IncomingMessage): InstanceType<typeof BadRequestError> | undefined {
  const problem =
    hostProblem(request) ?? (request.url?.charCodeAt(0) === SLASH ? undefined : readTarget(request))
  return problem === undefined ? undefined : new BadRequestError(problem)
}

const SLASH = 47

/** Most requests have the same. */
let lastHost = ''

/** Exactly one is valid, but HTTP/1.0 knew none. An empty one is that of a target without a host. */
function hostProblem({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let host: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!isHostName(rawHeaders[i])) continue
    if (host !== undefined) return 'it has several Host headers'
    host = rawHeaders[i + 1] ?? ''
  }
  if (host === undefined) return httpVersion === '1.0' ? undefined : 'it has no Host header'
  if (host === lastHost) return undefined
  if (!isHost(host))
    return host === '' ? undefined : 'its Host header is not a host name with an optional port'
  lastHost = host
  return undefined
}

function isHostName(name: string | undefined): boolean {
  return name?.length === 4 && name.toLowerCase() === 'host'
}

/** The authority, and the rest. */
const WHOLE_URL = /^https?:\/\/([^/?#]*)(.*)/i

function readTarget(request: IncomingMessage): string | undefined {
  const { url = '', method, headers, rawHeaders } = request
  if (method === 'CONNECT' || (url === '*' && method === 'OPTIONS')) return undefined
  const [, host = '', rest = ''] = WHOLE_URL.exec(url) ?? []
  if (!isHost(host)) return 'its target is neither a path nor a URL with a valid host'
  headers.host = host
  const place = rawHeaders.findIndex((name, index) => index % 2 === 0 && isHostName(name))
  if (place < 0) rawHeaders.push('Host', host)
  else rawHeaders[place + 1] = host
  if (rest === '' && method === 'OPTIONS') request.url = '*'
  else request.url = rest.startsWith('/') ? rest : `/${rest}`
  return undefined
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
