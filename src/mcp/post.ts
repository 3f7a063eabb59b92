import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { RateLimitedError } from '../errors/errors.ts'
import { type JsonText, jsonElements } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { RateCount } from '../platform/rate-counts.ts'
import type { RouteCaller } from '../route/callable-route.ts'
import { knownError, logFailure } from '../route/error-response.ts'
import type { Access, Grant } from './access.ts'
import type { Answer } from './answer.ts'
import type { Audit } from './audit.ts'
import type { Exchange } from './exchange.ts'
import {
  errorMessage,
  idOf,
  isRequestId,
  type Members,
  type Notification,
  parseJson,
  type Request,
  type RequestId,
  RPC_CODES,
  RpcError,
  readMessage,
  resultMessage,
} from './json-rpc.ts'
import type { ListChanges } from './list-changes.ts'
import { levelsFrom, logFor } from './log-notifications.ts'
import type { Methods } from './methods.ts'
import { challengeOf } from './protected-resource.ts'
import { type Questions, questionsOf } from './questions.ts'
import type { ClientRates, RateLimit } from './rate-limit.ts'
import type { RequestStates } from './request-state.ts'
import { BATCH_REVISION, headerOf, META, type Revision, revisionOf } from './revisions.ts'
import type { Cancellable, RequestName, RunningRequests } from './running-requests.ts'
import { needTasks, type Tasks } from './tasks.ts'
import { headersToMatch, type RequestHeaders, sessionOf } from './transport-headers.ts'

/** Messages of a batch. */
const MAX_BATCH = 100

/** What answers the messages of an endpoint. */
export interface McpService {
  readonly methods: Methods
  readonly access: Access
  /** undefined: no limit. */
  readonly rates: ClientRates | undefined
  /** undefined: the lists do not change. */
  readonly changes: ListChanges | undefined
  readonly running: RunningRequests
  readonly tasks: Tasks
  /** Seals what clients send back with their answers. */
  readonly states: RequestStates
  /** undefined: no lines. */
  readonly audit: Audit | undefined
}

/** Answers the message, or the batch, in the body of a request. Never throws: a failure becomes an answer. */
export async function answerPost(
  request: FastifyRequest,
  answer: Answer,
  service: McpService,
): Promise<void> {
  let value: unknown
  try {
    const { access } = service
    const grant = access.grantOf(request)
    const post = { request, answer, grant, ...service } // Node.js 20 adds properties after a spread slowly
    const { changes } = service
    const counted = countMessage(post)
    if (counted) await counted
    const read = parseJson(request.body instanceof Uint8Array ? request.body : new Uint8Array())
    value = read.value
    if (Array.isArray(value)) return await answerBatch(value, read.text, post)
    const message = readMessage(read)
    if (message.kind === 'notification') takeNotification(message, post)
    if (message.kind !== 'request') return answer.accept()
    const { method } = message
    const revision = method === 'subscriptions/listen' ? revisionOf(message, request.headers) : undefined
    if (changes && revision?.isModern) return await listen(message, revision, post, changes)
    const text = await answerRequest(message, post, false)
    if (text === undefined) return answer.endWithout()
    if (method === 'initialize') answer.header(SESSION_HEADER, randomUUID())
    answer.end(200, text)
  } catch (error) {
    endWithError(error, idOf(value), request, answer)
  }
}

/** @throws {@link RpcError}, {@link McpStreamsFullError}. */
async function listen(
  { id, params }: Request,
  revision: Revision,
  { methods, grant, tasks, answer }: Post,
  changes: ListChanges,
): Promise<void> {
  const { _meta, notifications } = params
  if (isObject(notifications) && notifications.taskIds !== undefined)
    needTasks({ meta: isObject(_meta) ? _meta : NO_META, revision })
  const { client } = grant
  const lists = methods.changingLists(grant)
  const { serverInfo } = methods
  const readTask = (taskId: string) =>
    tasks.answer({ method: 'tasks/get', taskId, client, responses: NO_RESPONSES })
  await changes.listen({ id, params, client, lists, serverInfo, readTask }, answer)
}

const NO_RESPONSES: ReadonlyMap<string, string> = new Map()

/** A request with messages. */
interface Post extends McpService {
  readonly request: FastifyRequest
  readonly answer: Answer
  readonly grant: Grant
}

/**
 * Counts a message.
 *
 * @returns a promise only if other processes count, too: others need no turn of the microtask queue.
 * @throws {@link RateLimitedError}
 */
function countMessage(post: Post): Promise<void> | undefined {
  const { rates, grant } = post
  const window = rates?.count(grant.client)
  if (!rates || !window) return undefined
  if (window instanceof Promise) return window.then((each) => refuseBeyond(rates.limit, each, post))
  refuseBeyond(rates.limit, window, post)
  return undefined
}

function refuseBeyond({ max, timeWindowMs }: RateLimit, { current, ttl }: RateCount, post: Post): void {
  if (current <= max) return
  const { answer, audit, grant, request } = post
  const error = new RateLimitedError(max, timeWindowMs)
  if (current === max + 1) audit?.limited(grant.client, request, error.code)
  answer.header('retry-after', String(Math.max(1, Math.ceil(ttl / 1_000))))
  throw error
}

/**
 * @param isBatched - The answer of a batch is one array: it has no notifications.
 * @returns the answer; undefined if the client has cancelled the request.
 * @throws {@link RpcError}
 */
async function answerRequest(message: Request, post: Post, isBatched: boolean): Promise<string | undefined> {
  const { request, methods, audit, grant, running } = post
  try {
    const revision = revisionOf(message, request.headers)
    if (isBatched && (revision.isModern || message.method === 'initialize'))
      throw invalidBatch(`a batch cannot have the request ${message.method} of this revision`)
    const exchange = new PostExchange(message, revision, post, !isBatched)
    const forget = running.add(nameOf(message.id, post), exchange)
    try {
      const result = await methods.answer(message, exchange)
      return exchange.isCancelled ? undefined : resultMessage(message.id, result)
    } finally {
      forget()
    }
  } catch (error) {
    const failure = rpcErrorOf(error, request)
    audit?.refused({ message, client: grant.client, request }, failure)
    throw failure
  }
}

/** The header of a session, which is the same in all requests of a client that began with `initialize`. */
const SESSION_HEADER = 'mcp-session-id'

function nameOf(id: RequestId, { request, grant }: Post): RequestName {
  const { [SESSION_HEADER]: session } = request.headers
  return { id, client: grant.client, session: typeof session === 'string' ? session : undefined }
}

function takeNotification(notification: Notification, post: Post): void {
  const { request, grant, methods, running } = post
  const { method, params } = notification
  if (method === 'notifications/cancelled' && isRequestId(params.requestId))
    running.cancel(nameOf(params.requestId, post))
  void methods.notified(notification, grant, { request, log: request.log, isGone: false })
}

/** A class, because V8 would give each object with a getter a hidden class of its own, which outlives the request. */
class PostExchange implements Exchange, RouteCaller, Cancellable {
  readonly id: RequestId
  readonly revision: Revision
  readonly headers: RequestHeaders
  readonly text: string
  readonly meta: Members
  readonly request: FastifyRequest
  readonly grant: Grant
  readonly questions: Questions | undefined
  readonly hasSession: boolean
  readonly wantsLevel: Exchange['wantsLevel']
  readonly log: RouteCaller['log']
  readonly #answer: Answer
  readonly #mayNotify: boolean
  #isCancelled = false

  /** @param mayNotify - Not in a batch: its answer is one array. */
  constructor(message: Request, revision: Revision, post: Post, mayNotify: boolean) {
    const { id, params, text } = message
    const { request } = post
    this.id = id
    this.revision = revision
    this.headers = headersToMatch(request.headers)
    this.text = text
    this.meta = isObject(params._meta) ? params._meta : NO_META
    this.request = request
    this.grant = post.grant
    const { isModern } = revision
    const session = isModern || !mayNotify ? undefined : sessionOf(request.headers)
    this.hasSession = session !== undefined
    this.wantsLevel = levelsFrom(isModern ? this.meta[META.logLevel] : session?.logLevel)
    const capabilities = isModern ? capabilitiesIn(this.meta) : session?.capabilities
    this.questions = capabilities && questionsOf(message, post.grant.client, post.states, capabilities)
    this.#answer = post.answer
    this.#mayNotify = mayNotify
    this.log = logFor(request.log, this)
  }

  get caller(): RouteCaller {
    return this
  }

  get isGone(): boolean {
    return this.#isCancelled || this.#answer.isGone
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  cancel(): void {
    this.#isCancelled = true
  }

  notify(method: string, params: string): void {
    if (this.#mayNotify) this.#answer.notify(method, params)
  }
}

const NO_META: Members = {}

function capabilitiesIn(meta: Members): Members {
  const capabilities = meta[META.clientCapabilities]
  return isObject(capabilities) ? capabilities : NO_META
}

/** Only one revision has batches. Their requests run at the same time, and their answers are one array. */
async function answerBatch(batch: readonly unknown[], text: string, post: Post): Promise<void> {
  const { request, answer } = post
  const named = headerOf(request.headers, 'mcp-protocol-version') ?? BATCH_REVISION
  if (named !== BATCH_REVISION) throw invalidBatch(`revision ${named} has no batches`)
  if (batch.length === 0 || batch.length > MAX_BATCH)
    throw invalidBatch(`a batch has 1 to ${MAX_BATCH} messages`)
  for (const _ of batch.slice(1)) await countMessage(post)
  const texts = jsonElements(text)
  const answers = await Promise.all(
    batch.map((value, index) => answerOne({ value, text: texts[index] ?? '' }, post)),
  )
  const messages = answers.filter((message) => message !== undefined)
  if (messages.length === 0) answer.accept()
  else answer.end(200, `[${messages.join(',')}]`)
}

/** The answer of a message in a batch; undefined if it has none: it is a notification, or a request that the client has cancelled. */
async function answerOne(read: JsonText, post: Post): Promise<string | undefined> {
  try {
    const message = readMessage(read)
    if (message.kind === 'notification') takeNotification(message, post)
    return message.kind === 'request' ? await answerRequest(message, post, true) : undefined
  } catch (error) {
    return errorMessage(idOf(read.value), rpcErrorOf(error, post.request))
  }
}

function invalidBatch(reason: string): RpcError {
  return new RpcError(RPC_CODES.invalidRequest, `Invalid request: ${reason}`)
}

/** Ends an answer with an error. @param id - undefined if the id of the request is not known. */
export function endWithError(
  error: unknown,
  id: RequestId | undefined,
  request: FastifyRequest,
  answer: Answer,
): void {
  const failure = rpcErrorOf(error, request)
  const { resource } = request.routeOptions.config
  if (failure.scope !== undefined) {
    const more = resource === undefined ? [] : [challengeOf(resource)]
    const parts = ['Bearer error="insufficient_scope"', `scope="${failure.scope}"`, ...more]
    answer.header('www-authenticate', parts.join(', '))
  }
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
