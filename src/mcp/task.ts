import { jsonOf } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { RouteCaller } from '../route/callable-route.ts'
import type { Client } from '../route/client.ts'
import type { Exchange } from './exchange.ts'
import { errorMembers, isRequestId, type Members, type Request, type RpcError } from './json-rpc.ts'
import { logFor } from './log-notifications.ts'
import type { Questions } from './questions.ts'

/** How often a client should ask for a task, in ms. */
const POLL_MS = 1_000

/** Characters of a status message. */
const MAX_STATUS_MESSAGE = 1_000

type Status = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A member of a task that is over, and its JSON. */
type More = readonly [member: 'result' | 'error', json: string]

/** A request about a task. */
export interface TaskRequest {
  readonly method: string
  readonly taskId: string
  readonly client: Pick<Client, 'kind' | 'id'>
  /** Answers to questions of the guest, JSON, by keys. */
  readonly responses: ReadonlyMap<string, string>
}

/** The number of the process that has a task. undefined: it is no id of a task. */
export function ownerOf(taskId: string): number | undefined {
  const [number] = /^\d{1,6}(?=-)/.exec(taskId) ?? []
  return number === undefined ? undefined : Number(number)
}

/** The call that a task is about. */
export interface TaskCall {
  readonly message: Request
  readonly exchange: Exchange
}

/** A call of a tool that goes on after its request was answered. */
export class Task {
  readonly id: string
  readonly client: Client
  readonly ttlMs: number
  #call: TaskCall | undefined
  readonly #createdAt = new Date().toISOString()
  readonly #onChange: () => void
  #updatedAt = this.#createdAt
  #status: Status = 'working'
  #statusMessage: string | undefined
  #more: More | undefined
  #asked: Asked | undefined
  #round = 0
  /** Whether its client has been told of its end. */
  isKnown = false

  /** @param onChange - Called after each change of the status, or of its message. */
  constructor(id: string, call: TaskCall, ttlMs: number, onChange: () => void) {
    this.id = id
    this.client = call.exchange.grant.client
    this.ttlMs = ttlMs
    this.#call = call
    this.#onChange = onChange
  }

  /** undefined: it is over. */
  get call(): TaskCall | undefined {
    return this.#call
  }

  /** Whether the guest need not go on. */
  get isOver(): boolean {
    return this.#status !== 'working' && this.#status !== 'input_required'
  }

  /** Whether no guest runs, because the client has to answer first. */
  get isAsking(): boolean {
    return this.#status === 'input_required'
  }

  /** The characters of its request and its questions with their answers, or of its result. */
  get size(): number {
    if (!this.#call) return this.#more?.[1].length ?? 0
    return this.#call.message.text.length + (this.#asked?.size ?? 0)
  }

  /** What the client gets in place of a result. */
  get created(): Members {
    return { resultType: 'task', ...this.#members() }
  }

  /** What `tasks/get` answers, as JSON. */
  get text(): string {
    const members = Object.entries(this.#members()).map(
      ([key, value]) => [key, JSON.stringify(value)] as const,
    )
    const asked = this.#asked && this.#status === 'input_required' ? this.#asked.openJson : undefined
    return jsonOf([
      ...members,
      ...(this.#more ? [this.#more] : []),
      ...(asked === undefined ? [] : [['inputRequests', asked] as const]),
    ])
  }

  #members(): Members {
    return {
      taskId: this.id,
      status: this.#status,
      ...(this.#statusMessage !== undefined && { statusMessage: this.#statusMessage }),
      createdAt: this.#createdAt,
      lastUpdatedAt: this.#updatedAt,
      ttlMs: this.ttlMs,
      pollIntervalMs: POLL_MS,
    }
  }

  /** Takes the message of a guest's progress. @param params - Those of the notification, JSON. */
  tell(params: string): void {
    const given: unknown = JSON.parse(params)
    const message = isObject(given) ? given.message : undefined
    if (typeof message === 'string') this.#become(this.#status, cut(message))
  }

  /** @param result - JSON. */
  complete(result: string): void {
    this.#become('completed', undefined, ['result', result])
  }

  fail(error: RpcError): void {
    this.#become('failed', cut(error.message), ['error', JSON.stringify(errorMembers(error))])
  }

  cancel(): void {
    this.#become('cancelled', undefined)
  }

  /**
   * Waits for answers of the client.
   *
   * @param result - The result that has the questions.
   * @returns as {@link Task.take}, if there is no question: the guest wants to be called again.
   */
  ask({ inputRequests, requestState }: Members): Answered | undefined {
    this.#asked = new Asked(isObject(inputRequests) ? inputRequests : {}, requestState, ++this.#round)
    const { answered } = this.#asked
    this.#become(answered ? 'working' : 'input_required', undefined)
    return answered
  }

  /**
   * Takes answers of the client. Those to other questions, or to questions that have an answer, are ignored.
   *
   * @param responses - JSON, by keys.
   * @returns the answers by the guest's keys, if all questions have one: the call goes on.
   */
  take(responses: ReadonlyMap<string, string>): Answered | undefined {
    const asked = this.#asked
    if (this.#status !== 'input_required' || !asked?.take(responses)) return undefined
    this.#become(asked.answered ? 'working' : 'input_required', undefined)
    return asked.answered
  }

  #become(status: Status, statusMessage: string | undefined, more?: More): void {
    if (this.isOver) return
    this.#status = status
    this.#statusMessage = statusMessage
    this.#more = more
    this.#updatedAt = new Date().toISOString()
    if (this.isOver) {
      this.#call = undefined
      this.#asked = undefined
    }
    this.#onChange()
  }
}

/** A message as a status has it. Strict clients refuse an answer with half of a character. */
function cut(message: string): string {
  return message.slice(0, MAX_STATUS_MESSAGE).toWellFormed()
}

/** The answers to all questions of a guest. */
export interface Answered {
  /** JSON, by the guest's keys. */
  readonly answers: ReadonlyMap<string, string>
  readonly requestState: unknown
}

/** Questions that were asked together. Over the life of a task each has a key of its own. */
class Asked {
  readonly #requests: ReadonlyMap<string, { readonly key: string; readonly request: unknown }>
  readonly #requestState: unknown
  readonly #sizeAsked: number
  readonly #answers = new Map<string, string>()

  constructor(requests: Members, requestState: unknown, round: number) {
    this.#requests = new Map(
      Object.entries(requests).map(([key, request]) => [`${round}.${key}`, { key, request }]),
    )
    this.#requestState = requestState
    this.#sizeAsked = JSON.stringify([requests, requestState]).length
  }

  /** Characters. */
  get size(): number {
    return [...this.#answers.values()].reduce((sum, { length }) => sum + length, this.#sizeAsked)
  }

  /** Those without an answer, as JSON. */
  get openJson(): string {
    const open = [...this.#requests].filter(([, { key }]) => !this.#answers.has(key))
    return JSON.stringify(Object.fromEntries(open.map(([key, { request }]) => [key, request])))
  }

  /** @returns whether one of them was for a question without an answer. */
  take(responses: ReadonlyMap<string, string>): boolean {
    const before = this.#answers.size
    for (const [key, text] of responses) {
      const asked = this.#requests.get(key)
      if (asked && !this.#answers.has(asked.key)) this.#answers.set(asked.key, text)
    }
    return this.#answers.size > before
  }

  /** undefined: a question has no answer. */
  get answered(): Answered | undefined {
    if (this.#answers.size < this.#requests.size) return undefined
    return { answers: this.#answers, requestState: this.#requestState }
  }
}

/** The exchange of a call that may become a task: from then on it has no client, and ends with the task. */
export class TaskExchange implements Exchange, RouteCaller {
  readonly isTask = true
  readonly id: Exchange['id']
  readonly revision: Exchange['revision']
  readonly headers = undefined
  readonly meta: Members
  readonly text: string
  readonly grant: Exchange['grant']
  readonly questions: Questions | undefined
  readonly hasSession = false
  readonly wantsLevel: Exchange['wantsLevel']
  readonly request: RouteCaller['request']
  readonly log: RouteCaller['log']
  readonly #begun: Exchange
  #task: Task | undefined
  /** The params of the last message about progress. */
  #progress: string | undefined

  /** @param begun - The exchange of the request that began the call. */
  constructor(begun: Exchange, { text, questions }: Pick<Exchange, 'text' | 'questions'> = begun) {
    this.id = begun.id
    this.revision = begun.revision
    this.meta = begun.meta
    this.text = text
    this.grant = begun.grant
    this.questions = questions
    this.wantsLevel = begun.wantsLevel
    this.request = begun.caller.request
    this.log = logFor(this.request.log, this)
    this.#begun = begun
  }

  become(task: Task): void {
    this.#task = task
    if (this.#progress !== undefined) task.tell(this.#progress)
  }

  get caller(): RouteCaller {
    return this
  }

  get isGone(): boolean {
    return this.#task ? this.#task.isOver : this.#begun.caller.isGone
  }

  /** A task has no stream for messages: the last one about its progress is part of its status, whether or not the client has a token. */
  notify(method: string, params: string): void {
    const isProgress = method === 'notifications/progress'
    if (isProgress) this.#progress = params
    if (this.#task) {
      if (isProgress) this.#task.tell(params)
    } else if (!isProgress || isRequestId(this.meta.progressToken)) this.#begun.notify(method, params)
  }
}
