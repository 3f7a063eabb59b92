import { type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../contract/answer-headers.ts'
import {
  BadRequestError,
  CallRefusedError,
  GuestError,
  InternalError,
  RequestRefusedError,
  ServerStartingError,
  SimplismBrokenError,
} from '../errors/errors.ts'
import { hasOwnCode } from '../errors/failure.ts'
import { servedRouteOf } from '../observe/observe.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { discardRest } from '../platform/unread-body.ts'
import { tooLarge } from './body.ts'

/** The body of an error answer. (RFC 9457) */
interface ProblemDetails {
  type: string
  title: string
  status: number
  detail: string
  /** A stable code for programs. */
  code: string
  requestId: string
}

/** Errors of wasm-serve: each has a stable code and the status for the client. */
export type KnownError = Error & {
  readonly code: string
  readonly statusCode: number
  /** Headers that its status requires, such as `allow`. */
  readonly headers?: Readonly<Record<string, string>>
}

/** `Retry-After` of a 503, in seconds. */
const RETRY_AFTER = '1'

export const PROBLEM_TYPE = 'application/problem+json'

/**
 * Fastify's error handler for routes: answers a failed call or request. The guest's own message goes to the client
 * unchanged; other failures become problem details, and their cause is only logged.
 *
 * @throws errors of other origin, such as a hook of the host app, for the app's handler.
 */
export function sendRouteError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const known = toHttpError(error, request)
  if (!known) throw error
  sendError(known, request, reply)
}

/** Fastify's error handler for a standalone server, which handles all errors. */
export function sendAnyError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  sendError(toHttpError(error, request) ?? classify(error), request, reply)
}

/** The failure of a call that a client sees. Errors of other origin come from a user's hook or contract. */
export function knownError(error: unknown): KnownError {
  if (hasOwnCode(error)) return error as KnownError
  if (!(error instanceof Error)) return new InternalError({ cause: error })
  return classify(error as FastifyError, CallRefusedError)
}

/** Marks an error as that of a call: if it has a status, a user's hook or contract has set it. */
export function failCall(error: Error): void {
  failedCalls.add(error)
}

const failedCalls = new WeakSet<Error>()

/** Classifies other errors, which have the status and the message of a user's hook or contract, or of a library. */
function classify(
  error: FastifyError,
  Refused = failedCalls.has(error) ? CallRefusedError : RequestRefusedError,
): KnownError {
  const { code, statusCode = 500, message } = error
  if (statusCode < 400 || statusCode > 499) return new InternalError({ cause: error })
  if (code?.startsWith('FST_')) return new BadRequestError(message)
  return Object.assign(new Refused(message), { statusCode })
}

/** Describes a failure to a client. */
export function problemDetails({ statusCode, code, message }: KnownError, requestId: string): ProblemDetails {
  const title = STATUS_CODES[statusCode] ?? 'Unknown Error'
  return { type: 'about:blank', title, status: statusCode, detail: message, code, requestId }
}

function toHttpError(error: FastifyError, { routeOptions }: FastifyRequest): KnownError | undefined {
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return tooLarge(routeOptions.bodyLimit ?? 0)
  if (error.code?.startsWith('FST_ERR_CTP_')) return new BadRequestError(error.message)
  return hasOwnCode(error) ? (error as KnownError) : undefined
}

function sendError(error: KnownError, request: FastifyRequest, reply: FastifyReply): void {
  setCommonHeaders(reply)
  if (error instanceof GuestError) {
    request.log.debug(
      { code: error.code, ...(error.cause as object | undefined) },
      'the guest returned an error',
    )
    sendText(error.message, reply.code(servedRouteOf(request)?.errorStatus ?? error.statusCode))
    return
  }
  reply.code(error.statusCode).headers(error.headers ?? {})
  logFailure(error, request, servedRouteOf(request))
  if (error instanceof SimplismBrokenError) {
    sendText(error.message, reply)
    return
  }
  if (error.statusCode === 503) reply.header('retry-after', RETRY_AFTER)
  // As bytes: Fastify would append a charset to a JSON string, and this type has none.
  const body = Buffer.from(JSON.stringify(problemDetails(error, request.id)))
  reply.header('content-type', PROBLEM_TYPE)
  sendBody(body, reply)
}

/** Sends the body of an answer, also to a client that is still sending its own body. */
export function sendBody(body: Buffer, reply: FastifyReply): void {
  const isClosedInBody = reply.getHeader('connection') === 'close' && reply.request.raw.complete === false
  if (!isClosedInBody) {
    reply.send(body)
    return
  }
  reply.hijack().header('content-length', body.length)
  reply.raw.writeHead(reply.statusCode, reply.getHeaders() as OutgoingHttpHeaders)
  sendAndClose(reply.raw, body)
}

function sendText(text: string, reply: FastifyReply): void {
  reply.header('content-type', 'text/plain; charset=utf-8').send(text)
}

/**
 * Sends the whole answer, whose head is already written with `Connection: close`. Ends it, after which Node closes the
 * connection, only when the client has sent its body or closed its side, or sends for too long: a connection that is closed
 * while bytes arrive is reset, and the answer is lost. (RFC 9112, section 9.6. Without this, of clients that send 8 MB and
 * get 413, Python's `http.client` never saw the answer, and Node's own client missed one in five.)
 */
export function sendAndClose(response: ServerResponse, body: Uint8Array): void {
  if (response.req.complete) {
    response.end(body)
    return
  }
  response.write(body)
  const end = () => response.end()
  void discardRest(response.req, { isSlow: response.statusCode === 408 }).then(end)
  response.socket?.once('end', end)
}

/** Logs a failed call: at level error if it is a failure of the server or of the guest. */
export function logFailure(
  error: KnownError,
  request: Pick<FastifyRequest, 'log'>,
  route: ServedRoute | undefined,
): void {
  const { message, cause } = error
  const fields = {
    code: error.code,
    ...(route && { route: route.url, plugin: route.plugin, function: route.function }),
  }
  if (error.statusCode < 500 || error instanceof ServerStartingError) request.log.debug(fields, message)
  else if (cause instanceof Error) request.log.error({ ...fields, err: cause }, message)
  else request.log.error({ ...fields, ...(cause as object | undefined) }, message)
}
