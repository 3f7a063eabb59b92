import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { type Connections, trackConnections } from './connections.ts'
import { type KnownError, problemDetails } from './error-response.ts'
import { BadRequestError, BodyTooLargeError, HeadersTooLargeError, RequestTimeoutError } from './errors.ts'
import type { CheckedServerOptions } from './options.ts'
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
): { server: Server; connections: Connections } {
  const server = createServer(
    {
      headersTimeout: options.headersTimeoutMs,
      requestTimeout: options.requestTimeoutMs,
      keepAliveTimeout: options.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(1_000, options.headersTimeoutMs, options.requestTimeoutMs),
      requireHostHeader: false, // checked here, with a better answer
    },
    (request, response) => {
      connections.set(request.socket, response)
      const problem = hostProblem(request)
      if (problem) return refuse(response, problem)
      handler(request, response)
    },
  )
  const connections = trackConnections(server)
  server.maxConnections = options.maxConnections
  server.on('clientError', (error: ParserError, socket: Socket) => {
    log.debug({ code: error.code, reason: error.message }, 'a client was cut off')
    answerClientError(toKnownError(error), socket, connections.get(socket))
  })
  logDrops(server, options.maxConnections, log)
  cutUnread(server, connections, options.unreadTimeoutMs, log)
  return { server, connections }
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

/** What the HTTP parser says; its `reason` is a fixed text. */
type ParserError = NodeJS.ErrnoException & { readonly reason?: string }

function toKnownError(error: ParserError): KnownError {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RequestTimeoutError()
    case 'HPE_HEADER_OVERFLOW':
      return new HeadersTooLargeError()
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new BodyTooLargeError()
    default:
      return new BadRequestError(error.reason ?? 'it is not HTTP/1.1')
  }
}

/** Answers on a connection that cannot go on, in its turn. */
function answerClientError(error: KnownError, socket: Socket, newest: ServerResponse | undefined): void {
  const isBodyOfNewest = newest && !newest.writableFinished && !newest.req.complete && !newest.headersSent
  if (!socket.writable) socket.destroy()
  else if (!newest || newest.writableFinished || (isBodyOfNewest && newest.socket)) {
    socket.end(renderAnswer(error), () => socket.destroy())
  } else if (isBodyOfNewest)
    refuse(newest, error) // other answers go out before
  else newest.once('close', () => answerClientError(error, socket, undefined))
}

function refuse(response: ServerResponse, error: KnownError): void {
  const { headers, body } = answer(error)
  response.writeHead(error.statusCode, headers).end(body)
}

function renderAnswer(error: KnownError): string {
  const { headers, body } = answer(error)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${error.statusCode} ${STATUS_CODES[error.statusCode]}\r\n${lines.join('')}\r\n${body}`
}

function answer(error: KnownError) {
  const id = randomUUID()
  const body = JSON.stringify(problemDetails(error, id))
  const headers = {
    'content-type': 'application/problem+json',
    'content-length': Buffer.byteLength(body),
    'x-request-id': id,
    'x-content-type-options': 'nosniff',
    connection: 'close',
  }
  return { headers, body }
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
