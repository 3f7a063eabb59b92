import { randomUUID } from 'node:crypto'
import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import {
  BadRequestError,
  BodyTooLargeError,
  HeadersTooLargeError,
  HttpVersionError,
  RequestTimeoutError,
} from '../errors/errors.ts'
import { requestId } from '../observe/log/request-id.ts'
import {
  type KnownError,
  LINGER_MS,
  PROBLEM_TYPE,
  problemDetails,
  sendAndClose,
} from '../route/error-response.ts'

/** What the HTTP parser says; its `reason` is a fixed text. */
export type ParserError = NodeJS.ErrnoException & { readonly reason?: string }

/** Answers a client that does not speak HTTP, or not in time. */
export function answerClientError(
  parserError: ParserError,
  socket: Socket,
  newest: ServerResponse | undefined,
): void {
  answerInTurn(toKnownError(parserError), socket, newest)
}

/** Answers with an error, and closes the connection, after the answers to what came before. */
export function answerInTurn(error: KnownError, socket: Socket, newest: ServerResponse | undefined): void {
  const isUnfinished = newest !== undefined && !newest.writableFinished
  const isInBody = newest !== undefined && !newest.req.complete
  if (isInBody && !newest.headersSent) {
    // Who reads the body makes the answer, and Node sends it in its turn.
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
      return new HeadersTooLargeError()
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new BodyTooLargeError('16 KiB in the extensions of its chunks')
    case 'HPE_INVALID_VERSION':
      // The same code stands for what is no version at all.
      if (error.reason === 'Invalid HTTP version') return new HttpVersionError('another version of HTTP')
      return new BadRequestError(error.reason ?? 'it is not HTTP/1.1')
    default:
      return new BadRequestError(error.reason ?? 'it is not HTTP/1.1')
  }
}

/** @param error - Left out if the client has its answer. */
function endSocket(socket: Socket, error: KnownError | undefined): void {
  if (!socket.writable) return // the client is gone, or the last answer closes
  // Not destroyed at once, see `sendAndClose`; but read, so that the client's end is noticed.
  socket.resume()
  socket.end(error ? renderAnswer(error) : '', () => {
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => clearTimeout(timer))
  })
}

/** Answers a request that goes no further, and closes its connection, if it has one of its own. */
export function refuse(response: ServerResponse, error: KnownError): void {
  const { headers, body } = answer(error, requestId(response.req))
  if ('stream' in response.req) {
    // Over HTTP/2, whatever a request line of HTTP/1 says.
    const { connection: _, ...allowed } = headers // others use the connection
    response.writeHead(error.statusCode, allowed).end(body)
    return
  }
  response.writeHead(error.statusCode, headers)
  sendAndClose(response, body)
}

function renderAnswer(error: KnownError): string {
  const { headers, body } = answer(error, randomUUID())
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${error.statusCode} ${STATUS_CODES[error.statusCode]}\r\n${lines.join('')}\r\n${body}`
}

function answer(error: KnownError, id: string) {
  const body = Buffer.from(JSON.stringify(problemDetails(error, id)))
  const headers = {
    'content-type': PROBLEM_TYPE,
    'content-length': body.length,
    'x-request-id': id,
    'x-content-type-options': 'nosniff',
    connection: 'close',
  }
  return { headers, body }
}
