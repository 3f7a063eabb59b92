import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../contract/answer-headers.ts'
import {
  McpContentTypeError,
  McpNotAcceptableError,
  MethodNotAllowedError,
  RouteInvalidError,
} from '../errors/errors.ts'
import { printable } from '../platform/text.ts'
import type { RouteCaller } from '../route/callable-route.ts'
import { knownError, logFailure } from '../route/error-response.ts'
import { serveRoute } from '../route/route.ts'
import { Answer } from './answer.ts'
import type { Exchange } from './exchange.ts'
import {
  errorMessage,
  idOf,
  isObject,
  parseJson,
  type Request,
  type RequestId,
  RPC_CODES,
  RpcError,
  readMessage,
  resultMessage,
} from './json-rpc.ts'
import { logFor } from './log-notifications.ts'
import type { Methods } from './methods.ts'
import { originCheck } from './origin.ts'
import { BATCH_REVISION, headerOf, type Revision, revisionOf } from './revisions.ts'

/** Where the endpoint is, and which requests it accepts. */
export interface EndpointOptions {
  readonly url: string
  readonly hosts: readonly string[]
  readonly origins: readonly string[]
  /** In bytes. */
  readonly bodyLimit: number
}

/** Messages of a batch. */
const MAX_BATCH = 100

/**
 * Adds the endpoint to an app: one URL that answers POST, each request by itself and without sessions.
 *
 * @throws {@link RouteInvalidError} if the app has a route there.
 */
export function addEndpoint(app: FastifyInstance, options: EndpointOptions, methods: Methods): void {
  const { url, hosts, origins, bodyLimit } = options
  const problemWithOrigin = originCheck(hosts, origins)
  const run = (request: FastifyRequest, reply: FastifyReply) => {
    void answerBody(request, new Answer(reply), methods)
  }
  const refuse = (error: unknown, request: FastifyRequest, reply: FastifyReply) =>
    endWithError(error, undefined, request, new Answer(reply))
  try {
    app.route({
      method: 'POST',
      url,
      bodyLimit,
      exposeHeadRoute: false,
      onRequest({ headers }, reply, done) {
        setCommonHeaders(reply)
        done(problemWithOrigin(headers) ?? problemWithTypes(headers))
      },
      errorHandler: refuse,
      handler: serveRoute(run, bodyLimit, false),
    })
    app.route({
      method: app.supportedMethods.filter((method) => method !== 'POST' && method !== 'OPTIONS'),
      url,
      exposeHeadRoute: false,
      onRequest({ method, headers }, reply, done) {
        setCommonHeaders(reply)
        reply.header('allow', 'POST')
        done(problemWithOrigin(headers) ?? new MethodNotAllowedError(method, 'POST'))
      },
      errorHandler: refuse,
      handler: () => undefined, // never called
    })
  } catch (error) {
    throw new RouteInvalidError(url, (error as Error).message, { cause: error })
  }
}

function problemWithTypes(headers: IncomingHttpHeaders): Error | undefined {
  const { accept = '*/*', 'content-type': type = 'none' } = headers
  if (!/^application\/json\s*(?:;|$)/i.test(type))
    return new McpContentTypeError(printable(type.slice(0, 100)))
  const accepts = (wanted: string) => accept.includes('*/*') || accept.toLowerCase().includes(wanted)
  return accepts('application/json') && accepts('text/event-stream') ? undefined : new McpNotAcceptableError()
}

async function answerBody(request: FastifyRequest, answer: Answer, methods: Methods): Promise<void> {
  let value: unknown
  try {
    value = parseJson(request.body instanceof Uint8Array ? request.body : new Uint8Array())
    if (Array.isArray(value)) return await answerBatch(value, request, answer, methods)
    const message = readMessage(value)
    if (message.kind !== 'request') return answer.accept()
    const revision = revisionOf(message, request.headers)
    const result = await methods.answer(message, exchangeOf(message, revision, request, answer, true))
    answer.end(200, resultMessage(message.id, result))
  } catch (error) {
    endWithError(error, idOf(value), request, answer)
  }
}

/** @param mayNotify - Not in a batch: its answer is one array. */
function exchangeOf(
  { id, params }: Request,
  revision: Revision,
  request: FastifyRequest,
  answer: Answer,
  mayNotify: boolean,
): Exchange {
  const meta = isObject(params._meta) ? params._meta : {}
  const notify = (method: string, notified: object) => {
    if (mayNotify) answer.notify(method, notified)
  }
  const caller: RouteCaller = {
    request,
    log: revision.isModern ? logFor(meta, request.log, notify) : request.log,
    get isGone() {
      return answer.isGone
    },
  }
  return { id, revision, headers: request.headers, meta, caller, notify }
}

/** Only one revision has batches. Their requests run at the same time, and their answers are one array. */
async function answerBatch(
  batch: readonly unknown[],
  request: FastifyRequest,
  answer: Answer,
  methods: Methods,
): Promise<void> {
  const named = headerOf(request.headers, 'mcp-protocol-version') ?? BATCH_REVISION
  if (named !== BATCH_REVISION) throw invalidBatch(`revision ${named} has no batches`)
  if (batch.length === 0 || batch.length > MAX_BATCH)
    throw invalidBatch(`a batch has 1 to ${MAX_BATCH} messages`)
  const answers = await Promise.all(
    batch.map(async (value) => {
      try {
        const message = readMessage(value)
        if (message.kind !== 'request') return undefined
        const revision = revisionOf(message, request.headers)
        if (revision.isModern || message.method === 'initialize')
          throw invalidBatch(`a batch cannot have the request ${message.method} of this revision`)
        return resultMessage(
          message.id,
          await methods.answer(message, exchangeOf(message, revision, request, answer, false)),
        )
      } catch (error) {
        return errorMessage(idOf(value), rpcErrorOf(error, request))
      }
    }),
  )
  const messages = answers.filter((message) => message !== undefined)
  if (messages.length === 0) answer.accept()
  else answer.end(200, messages)
}

function invalidBatch(reason: string): RpcError {
  return new RpcError(RPC_CODES.invalidRequest, `Invalid request: ${reason}`)
}

function endWithError(
  error: unknown,
  id: RequestId | undefined,
  request: FastifyRequest,
  answer: Answer,
): void {
  const failure = rpcErrorOf(error, request)
  answer.end(failure.status, errorMessage(id, failure))
}

/** Failures of the server have its own code in `data`. */
function rpcErrorOf(error: unknown, request: FastifyRequest): RpcError {
  if (error instanceof RpcError) return error
  const known = knownError(error)
  const { message, statusCode, code } = known
  logFailure(known, request, undefined)
  const number = statusCode >= 500 ? RPC_CODES.internalError : RPC_CODES.invalidRequest
  return new RpcError(number, message, statusCode, { code })
}
