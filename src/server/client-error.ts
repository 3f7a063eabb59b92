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
import { requestId } from '../observe/log/request-log.ts'
import {
  type KnownError,
  LINGER_MS,
  PROBLEM_TYPE,
  problemDetails,
  sendAndClose,
} from '../route/error-response.ts'

/** An error of the HTTP parser; its `reason` is a fixed text. */
export type ParserError = NodeJS.ErrnoException & { readonly reason?: string }

/** Answers a client whose bytes are not HTTP, or that sends them too late. */
export function answerClientError(
  parserError: ParserError,
  socket: Socket,
  newest: ServerResponse | undefined,
): void {
  answerInTurn(toKnownError(parserError), socket, newest)
}

/** Answers with an error after the answers to earlier requests, and closes the connection. */
export function answerInTurn(error: KnownError, socket: Socket, newest: ServerResponse | undefined): void {
  const isUnfinished = newest !== undefined && !newest.writableFinished
  const isInBody = newest !== undefined && !newest.req.complete
  if (isInBody && !newest.headersSent) {
    // The reader of the body answers, and Node sends that in its turn.
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
      // The same code also stands for a malformed version.
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
  const { headers, body } = problemAnswer(error, requestId(response.req))
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
  const { headers, body } = problemAnswer(error, randomUUID())
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
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
  }
  return { headers, body }
}
