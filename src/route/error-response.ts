import { type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../contract/answer-headers.ts'
import {
  BadRequestError,
  CallRefusedError,
  GuestError,
  InternalError,
  SimplismBrokenError,
} from '../errors/errors.ts'
import { tooLarge } from './body.ts'

/** The body of an answer to a failed request. (RFC 9457) */
export interface ProblemDetails {
  type: string
  title: string
  status: number
  detail: string
  /** Stable: match on this. */
  code: string
  requestId: string
}

/** Our errors: each has a code that never changes, and the status that a client sees. */
export type KnownError = Error & { readonly code: string; readonly statusCode: number }

/** `Retry-After` of a 503, in seconds. */
const RETRY_AFTER = '1'

export const PROBLEM_TYPE = 'application/problem+json'

/** How long a refused client may go on sending before its connection is closed, in milliseconds. */
export const LINGER_MS = 1_000

/**
 * Fastify's error handler for our routes: makes the answer of a failed call or request. The guest's own word goes to
 * the client as it is; everything else as problem details, and its cause to the log only.
 *
 * @throws errors of other origin, such as a hook of the app that the routes are mounted into: the app's handler gets them.
 */
export function sendRouteError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const known = toHttpError(error, request)
  if (!known) throw error
  sendError(known, request, reply)
}

/** Fastify's error handler for a server of our own, where nothing else knows what to do with an error. */
export function sendAnyError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  sendError(toHttpError(error, request) ?? classify(error), request, reply)
}

/** Any other error comes from a hook or contract of the user, which sets its status and message. */
function classify(error: FastifyError): KnownError {
  const { code, statusCode = 500, message } = error
  if (statusCode < 400 || statusCode > 499) return new InternalError({ cause: error })
  if (code?.startsWith('FST_')) return new BadRequestError(message)
  return Object.assign(new CallRefusedError(message), { statusCode })
}

/** Describes a failure to a client. */
export function problemDetails({ statusCode, code, message }: KnownError, requestId: string): ProblemDetails {
  const title = STATUS_CODES[statusCode] ?? 'Unknown Error'
  return { type: 'about:blank', title, status: statusCode, detail: message, code, requestId }
}

function toHttpError(error: FastifyError, { routeOptions }: FastifyRequest): KnownError | undefined {
  if (error.code?.startsWith('WASM_SERVE_')) return error as KnownError
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return tooLarge(routeOptions.bodyLimit ?? 0)
  if (error.code?.startsWith('FST_ERR_CTP_')) return new BadRequestError(error.message)
  return undefined
}

function sendError(error: KnownError, request: FastifyRequest, reply: FastifyReply): void {
  setCommonHeaders(reply)
  if (error instanceof GuestError) {
    request.log.debug({ code: error.code, ...(error.cause as object | undefined) }, 'the guest said no')
    const { wasmServe } = request.routeOptions.config
    sendText(error.message, reply.code(wasmServe?.errorStatus ?? error.statusCode))
    return
  }
  reply.code(error.statusCode)
  logFailure(error, request)
  if (error instanceof SimplismBrokenError) {
    sendText(error.message, reply)
    return
  }
  if (error.statusCode === 503) reply.header('retry-after', RETRY_AFTER)
  // As bytes: to a JSON text Fastify would append a charset, which this type does not have.
  const body = Buffer.from(JSON.stringify(problemDetails(error, request.id)))
  reply.header('content-type', PROBLEM_TYPE)
  const isClosedInBody = reply.getHeader('connection') === 'close' && request.raw.complete === false
  if (!isClosedInBody) {
    reply.send(body)
    return
  }
  reply.hijack().header('content-length', body.length)
  reply.raw.writeHead(error.statusCode, reply.getHeaders() as OutgoingHttpHeaders)
  sendAndClose(reply.raw, body)
}

function sendText(text: string, reply: FastifyReply): void {
  reply.header('content-type', 'text/plain; charset=utf-8').send(text)
}

/**
 * Sends all of an answer whose head is written and says `Connection: close`. Ends it, on which Node closes, only when
 * the client has sent its body or ended its side, or after {@link LINGER_MS}: a connection that is closed while bytes arrive is reset,
 * and the answer lost. (RFC 9112, section 9.6. Without this, of clients that send 8 MB to be told 413, Python's
 * `http.client` never saw the answer and Node's own one time in five.)
 */
export function sendAndClose(response: ServerResponse, body: Uint8Array): void {
  if (response.req.complete) {
    response.end(body)
    return
  }
  response.write(body)
  const end = () => response.end()
  const timer = setTimeout(end, LINGER_MS)
  response.once('close', () => clearTimeout(timer))
  response.req.once('end', end).resume()
  response.socket?.once('end', end)
}

function logFailure(error: KnownError, request: FastifyRequest): void {
  const { message, cause } = error
  const wasmServe = request.routeOptions.config?.wasmServe // a URL that cannot be read has no route
  const fields = {
    code: error.code,
    ...(wasmServe && { route: wasmServe.url, plugin: wasmServe.plugin, function: wasmServe.function }),
  }
  if (error.statusCode < 500) request.log.debug(fields, message)
  else if (cause instanceof Error) request.log.error({ ...fields, err: cause }, message)
  else request.log.error({ ...fields, ...(cause as object | undefined) }, message)
}
