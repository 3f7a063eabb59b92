import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers'
import { setTimeout as sleep } from 'node:timers/promises'
import { ClientGoneError, McpTasksFullError } from '../errors/errors.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import { jsonAt, jsonMembers } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { Client } from '../route/client.ts'
import type { Exchange } from './exchange.ts'
import { type Members, parseJson, type Request, RPC_CODES, RpcError, readMessage } from './json-rpc.ts'
import type { AgentRelay, ListChanges } from './list-changes.ts'
import { InputRequired } from './questions.ts'
import { META } from './revisions.ts'
import { withAnswers } from './session-questions.ts'
import { type Answered, ownerOf, Task, type TaskCall, TaskExchange, type TaskRequest } from './task.ts'
import { failedResult, type ToolResult } from './tool-result.ts'

/*
 * Calls of tools that go on after their requests were answered. A task lives in the process that runs it, whose number is part of its id:
 * other processes pass requests about it on. It outlives the app that began it.
 *
 * @see https://modelcontextprotocol.io/seps/2663-tasks-extension
 */

/** The name of the extension. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

/** Methods of requests about a task. */
const METHODS: readonly string[] = ['tasks/get', 'tasks/update', 'tasks/cancel']

/** Tasks of all clients of one kind. */
const MAX_TASKS = 1_000

/** Tasks of one client. */
const MAX_TASKS_PER_CLIENT = 100

/** Characters of all tasks that are not over: of their requests, and of questions with their answers. */
const MAX_REQUESTS = 67_108_864

/** Characters of the results of all tasks. Beyond it, the oldest tasks that are over are forgotten. */
const MAX_RESULTS = 67_108_864

/** Time for which a task is known by default, in ms. */
const DEFAULT_TTL_MS = 3_600_000

/** When a call becomes a task. */
export interface TaskRule {
  /** Time that a call has to end before, in ms. */
  readonly afterMs: number
  /** Whether clients that do not know tasks are refused. */
  readonly isRequired: boolean
  /** Time for which a task is known, from its beginning, in ms. */
  readonly ttlMs: number
}

/** What answers calls of tools at the moment. */
export interface TaskHost {
  /** Whether calls of some tools may become tasks. */
  readonly mayHaveTasks: boolean
  /** Calls a tool again. @throws {@link InputRequired}, {@link RpcError}. */
  call(message: Request, exchange: Exchange): Promise<Members | ToolResult>
  /** A result as JSON. */
  render(result: Members | ToolResult): string
  /** Called when the call of a task has ended, or waits for an answer of the client. */
  ended(call: TaskCall, result: Members | RpcError, ms: number): void
}

/** The rule of a tool. undefined: its calls never become tasks. */
export function taskRule({ tool }: Pick<ResolvedRoute, 'tool'>): TaskRule | undefined {
  const { task } = tool ?? {}
  if (!task || task.enabled === false) return undefined
  const { afterMs = 0, required: isRequired = false, ttlMs = DEFAULT_TTL_MS } = task
  return { afterMs, isRequired, ttlMs }
}

/** Whether a client takes a task in place of a result. */
function knowsTasks({ meta, revision }: Pick<Exchange, 'meta' | 'revision'>): boolean {
  const capabilities = meta[META.clientCapabilities]
  const extensions = isObject(capabilities) ? capabilities.extensions : undefined
  return revision.isModern && isObject(extensions) && isObject(extensions[TASKS_EXTENSION])
}

/** @throws {@link RpcError} if the client does not know tasks. */
export function needTasks(exchange: Pick<Exchange, 'meta' | 'revision'>): void {
  if (knowsTasks(exchange)) return
  const requiredCapabilities = { extensions: { [TASKS_EXTENSION]: {} } }
  const message = `Missing required client capability: the extension ${TASKS_EXTENSION}`
  const status = exchange.revision.isModern ? 400 : 200
  throw new RpcError(RPC_CODES.missingCapability, message, status, { requiredCapabilities })
}

/** Whether a request is about a task. */
export function isAboutTask({ method }: Request): boolean {
  return METHODS.includes(method)
}

/** The request about a task in a message. @throws {@link RpcError} if its params are invalid. */
export function taskRequestOf({ method, params, text }: Request, client: Client): TaskRequest {
  const { taskId, inputResponses } = params
  if (typeof taskId !== 'string') throw invalid('taskId must be a text')
  const isUpdate = method === 'tasks/update'
  if (isUpdate && !isObject(inputResponses)) throw invalid('inputResponses must be an object')
  const responses = isUpdate ? jsonMembers(jsonAt(text, 'params', 'inputResponses')) : []
  const { kind, id } = client
  return { method, taskId, client: { kind, id }, responses: new Map(responses) }
}

/** @returns the error for a task that the server does not know, or only for another client. */
export function unknownTask(): RpcError {
  return invalid('the task is not known. It has expired, or the server was restarted')
}

function invalid(problem: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, `Invalid params: ${problem}`, 200)
}

/** The tasks of all apps that serve an endpoint one after the other. */
export class Tasks {
  readonly #byId = new Map<string, Task>()
  readonly #expiry = new Map<string, NodeJS.Timeout>()
  readonly #changes: Pick<ListChanges, 'announce'> | undefined
  readonly #relay: Pick<AgentRelay, 'number' | 'askTask'> | undefined
  #host: TaskHost | undefined
  #mayExist = false
  #isClosed = false

  /**
   * @param changes - Tells clients that wait for a task of its changes.
   * @param relay - Other processes, which have tasks of their own. Default: there are none.
   */
  constructor(changes?: Pick<ListChanges, 'announce'>, relay?: Pick<AgentRelay, 'number' | 'askTask'>) {
    this.#changes = changes
    this.#relay = relay
  }

  /** Sets what answers the calls of the first app. Has no effect later. */
  begin(host: TaskHost): void {
    if (!this.#host) this.replace(host)
  }

  /** Sets what answers calls from now on. */
  replace(host: TaskHost): void {
    this.#host = host
    this.#isClosed = false
    this.#mayExist ||= host.mayHaveTasks
  }

  /** Whether there may be tasks, also those of tools that a reload has taken out. */
  get mayExist(): boolean {
    return this.#mayExist
  }

  /**
   * Calls a tool.
   *
   * @param call - Called once.
   * @returns the result; or a task, if the client knows tasks and the call takes longer than the rule says.
   * @throws what the call throws; {@link RpcError} if the rule needs a client that knows tasks; {@link McpTasksFullError}.
   */
  async call(
    rule: TaskRule,
    message: Request,
    exchange: Exchange,
    call: (exchange: Exchange) => Promise<ToolResult>,
  ): Promise<Members | ToolResult> {
    if (rule.isRequired) needTasks(exchange)
    const { client } = exchange.grant
    if (rule.isRequired && !this.#makeRoom(client))
      throw new McpTasksFullError(MAX_TASKS_PER_CLIENT, MAX_TASKS)
    if (!knowsTasks(exchange)) return await call(exchange)
    const own = new TaskExchange(exchange)
    const begun = performance.now()
    const called = call(own)
    if (rule.afterMs > 0 && (await endsWithin(rule.afterMs, called))) return await called
    // A client that does not get its id could never end the task.
    if (exchange.caller.isGone || !this.#makeRoom(client)) return await called
    const task = this.#add(rule, { message, exchange })
    own.become(task)
    void this.#follow(task, { message, exchange }, called, begun)
    return task.created
  }

  /** Forgets the oldest result that its client knows, if a task more would be too many. @returns false if there is no room. */
  #makeRoom({ kind, id }: Client): boolean {
    if (this.#isClosed || this.#isOverfull) return false
    const alike = [...this.#byId.values()].filter(({ client }) => client.kind === kind)
    const mine = alike.filter(({ client }) => client.id === id)
    const full = mine.length >= MAX_TASKS_PER_CLIENT ? mine : alike.length >= MAX_TASKS ? alike : undefined
    if (!full) return true
    const known = full.find(({ isKnown }) => isKnown)
    if (known) this.#forget(known)
    return known !== undefined
  }

  /** Whether the tasks that are not over take all the room that they have together. */
  get #isOverfull(): boolean {
    return sizeOf([...this.#byId.values()].filter(({ isOver }) => !isOver)) >= MAX_REQUESTS
  }

  #add({ ttlMs }: TaskRule, call: TaskCall): Task {
    const id = `${this.#relay?.number ?? 0}-${randomBytes(18).toString('base64url')}`
    const task = new Task(id, call, ttlMs, () => this.#changes?.announce({ task: id }))
    this.#byId.set(id, task)
    this.#expiry.set(id, setTimeout(() => this.#forget(task), ttlMs).unref())
    return task
  }

  /** Clients that wait for it are told, too. */
  #forget(task: Task): void {
    this.#cancel(task)
    clearTimeout(this.#expiry.get(task.id))
    this.#expiry.delete(task.id)
    this.#byId.delete(task.id)
    this.#changes?.announce({ task: task.id })
  }

  /** Without a call that ends, nothing else would write a line. */
  #cancel(task: Task): void {
    const { call, isAsking } = task
    task.cancel()
    if (call && isAsking) this.#host?.ended(call, failedResult(new ClientGoneError()), 0)
  }

  /** Never throws. */
  async #follow(
    task: Task,
    call: TaskCall,
    called: Promise<Members | ToolResult>,
    begun: number,
  ): Promise<void> {
    const host = this.#host
    const ended = (result: Members | RpcError) => host?.ended(call, result, performance.now() - begun)
    try {
      const result = await called
      ended(result)
      task.complete(host?.render(result) ?? '{}')
      this.#forgetOldResults()
    } catch (error) {
      if (error instanceof InputRequired) {
        ended(error.result)
        this.#goOn(task, task.ask(error.result))
        return
      }
      const failure = error instanceof RpcError ? error : internalError(error)
      ended(failure)
      task.fail(failure)
    }
  }

  #forgetOldResults(): void {
    const done = [...this.#byId.values()].filter(({ isOver }) => isOver)
    let total = sizeOf(done)
    for (const task of done) {
      if (total <= MAX_RESULTS) return
      total -= task.size
      this.#forget(task)
    }
  }

  /**
   * Answers a request about a task, whichever process has it.
   *
   * @returns what `tasks/get` answers, as JSON; undefined if the task is not known.
   * @throws {@link RpcError} if its process does not answer.
   */
  async answer(request: TaskRequest): Promise<string | undefined> {
    const owner = ownerOf(request.taskId)
    if (!this.#relay || owner === this.#relay.number) return this.answerHere(request)
    if (owner === undefined) return undefined
    try {
      return await this.#relay.askTask(owner, request)
    } catch {
      const message = 'The process that runs the task does not respond. Try again'
      throw new RpcError(RPC_CODES.internalError, message, 200)
    }
  }

  /** Answers a request about a task of this process. */
  answerHere({ method, taskId, client, responses }: TaskRequest): string | undefined {
    const task = this.#byId.get(taskId)
    if (!task || !isSame(task.client, client)) return undefined
    if (method === 'tasks/cancel') this.#cancel(task)
    if (method === 'tasks/update') this.#goOn(task, task.take(responses))
    task.isKnown = task.isOver
    return task.text
  }

  /** Calls the tool again, from its beginning, with the answers. @param answered - undefined: some are missing. */
  #goOn(task: Task, answered: Answered | undefined): void {
    const { call: begun } = task
    const isLarge = task.size > MAX_REQUESTS / MAX_TASKS // others are not to blame
    if (begun && isLarge && this.#isOverfull) this.#fail(task, begun, tooLarge())
    else if (begun && answered) void this.#repeat(task, begun, answered)
  }

  #fail(task: Task, call: TaskCall, failure: RpcError): void {
    this.#host?.ended(call, failure, 0)
    task.fail(failure)
  }

  #repeat(task: Task, begun: TaskCall, { answers, requestState }: Answered): Promise<void> {
    const { exchange } = begun
    const text = withAnswers(exchange.text, answers, { requestState })
    const call = async (): Promise<Members | ToolResult> => {
      const host = this.#host
      const message = readMessage(parseJson(Buffer.from(text)))
      if (!host || message.kind !== 'request') throw new Error('no tools are served')
      const own = new TaskExchange(exchange, { text, questions: exchange.questions?.repeated(message) })
      own.become(task)
      return await host.call(message, own)
    }
    return this.#follow(task, begun, call(), performance.now())
  }

  /** Cancels all tasks, and forgets them. There are none until another app answers. */
  close(): void {
    this.#isClosed = true
    for (const task of this.#byId.values()) this.#forget(task)
  }
}

function sizeOf(tasks: readonly Task[]): number {
  return tasks.reduce((sum, { size }) => sum + size, 0)
}

/** Whether it is over in time, whatever its result. */
async function endsWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  const timeout = new AbortController()
  const over = work.then(
    () => true,
    () => true,
  )
  const isOver = await Promise.race([over, sleep(ms, false, { signal: timeout.signal, ref: false })])
  timeout.abort()
  return isOver
}

/** A client without a key may come from several addresses: the id of its task is its key. */
function isSame(owner: Client, client: TaskRequest['client']): boolean {
  return owner.kind === client.kind && (owner.kind === 'address' || owner.id === client.id)
}

function tooLarge(): RpcError {
  const message = `The requests of all tasks, and the questions with their answers, take more than ${MAX_REQUESTS} characters`
  return new RpcError(RPC_CODES.internalError, message, 200)
}

function internalError(error: unknown): RpcError {
  const reason = error instanceof Error ? error.message : String(error)
  return new RpcError(RPC_CODES.internalError, `Internal error: ${reason}`, 200)
}
