import { setInterval, setTimeout } from 'node:timers'
import { McpStreamsFullError } from '../errors/errors.ts'
import { isObject } from '../platform/json-text.ts'
import type { Client } from '../route/client.ts'
import type { Answer } from './answer.ts'
import { type Members, type RequestId, RPC_CODES, RpcError, resultMessage } from './json-rpc.ts'
import { META } from './revisions.ts'
import { ownerOf, type TaskRequest } from './task.ts'

/*
 * Streams of clients that wait for changed lists, resources and tasks: `subscriptions/listen`, from revision 2026-07-28 on. A stream outlives the app
 * that has opened it, because the event it waits for is another app, after a reload.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
 */

/** Identifies the content of each list: another text is another list. */
export type ListVersions = Readonly<Record<ChangingList, string>>

/** A list whose changes clients can wait for. */
export type ChangingList = keyof typeof LISTS

/** What a plug-in says that it has changed. */
export interface GuestChange {
  /** The name of the plug-in. */
  readonly plugin: string
  /** A list, or else a resource by its URI. */
  readonly list?: ChangingList
  readonly resource?: string
}

/** What clients get notifications of: a change of a plug-in, a changed task (its id), or the end of the process that ran tasks (its number). */
export type Change = GuestChange | { readonly task: string } | { readonly tasksOf: number }

/** The other processes of a server, which have other clients and may run their requests. */
export interface AgentRelay {
  /** The number of this process. */
  readonly number: number
  /** Cancels the only request with this key, whichever process runs it. */
  cancel(key: string): void
  /** Tells the other processes of changes. */
  announce(changes: readonly Change[]): void
  /** Passes on a request about a task. @param owner - The number of the process that has it. */
  askTask(owner: number, request: TaskRequest): Promise<string | undefined>
}

/** The member of the filter and the notification, by list. */
const LISTS = {
  tools: { member: 'toolsListChanged', notification: 'notifications/tools/list_changed' },
  prompts: { member: 'promptsListChanged', notification: 'notifications/prompts/list_changed' },
  resources: { member: 'resourcesListChanged', notification: 'notifications/resources/list_changed' },
} as const

const NAMES: readonly ChangingList[] = ['tools', 'prompts', 'resources']

const RESOURCE_UPDATED = 'notifications/resources/updated'

/** Resources of one stream. */
const MAX_RESOURCES = 1_000

/** Tasks of one stream. */
const MAX_TASKS = 100

/** Open streams of all clients of one kind. */
const MAX_STREAMS = 1_000

/** Open streams of one client. Behind a reverse proxy without `trustProxy` all clients may be one. */
const MAX_STREAMS_PER_CLIENT = 100

/** How long changes are collected. */
const ANNOUNCE_MS = 20

/** Changes of plug-ins that are collected. Further ones are not announced. */
const MAX_PENDING = 1_000

/** The time between two signs of life, which keep reverse proxies from closing a stream. */
const HEARTBEAT_MS = 15_000

/** A request for a stream. */
interface ListenRequest {
  readonly id: RequestId
  readonly params: Members
  /** The client whose streams are counted together. */
  readonly client: Client
  /** Lists that the server has. */
  readonly lists: ReadonlySet<ChangingList>
  readonly serverInfo: Members
  /** What `tasks/get` answers to the client, as JSON. undefined: the task is not known. */
  readTask(taskId: string): Promise<string | undefined>
}

interface Stream {
  readonly request: ListenRequest
  readonly answer: Answer
  readonly wanted: readonly ChangingList[]
  /** URIs of resources. */
  readonly resources: ReadonlySet<string>
  /** Ids of tasks. */
  readonly tasks: Set<string>
  /** Ids of tasks that changed while the client did not read. It gets their last state when it reads again. */
  readonly late: Set<string>
}

/** The streams of all apps that serve an endpoint one after the other. */
export class ListChanges {
  readonly #streams = new Set<Stream>()
  readonly #watchers = new Set<(change: GuestChange) => void>()
  readonly #relay: Pick<AgentRelay, 'announce'> | undefined
  #versions: ListVersions | undefined
  #heartbeat: NodeJS.Timeout | undefined
  /** Changes that clients will be told of, each once. */
  readonly #pending = new Map<string, Change>()
  #soon: NodeJS.Timeout | undefined
  #isClosed = false
  /** Tasks whose state is being sent to streams. True: the state has changed since, and is sent again. */
  readonly #telling = new Map<string, boolean>()

  /** @param relay - Other processes, which have other clients. Default: there are none. */
  constructor(relay?: Pick<AgentRelay, 'announce'>) {
    this.#relay = relay
  }

  /** Sets the lists of the first app. Has no effect later. */
  begin(versions: ListVersions): void {
    this.#versions ??= versions
  }

  /** Sets the lists of the app that answers from now on. Clients that wait for those that differ get a notification. */
  replace(versions: ListVersions): void {
    const before = this.#versions
    this.#versions = versions
    this.#isClosed = false
    for (const list of NAMES.filter((name) => before?.[name] !== versions[name])) this.#notifyOfList(list)
  }

  /**
   * Tells all clients that wait for it of a change, and those of other processes: soon, because a plug-in may say so in each of many
   * calls.
   */
  announce(change: Change): void {
    if (this.#pending.size >= MAX_PENDING && !('task' in change)) return // the number of tasks has a limit
    this.#pending.set(JSON.stringify(change), change)
    this.#soon ??= setTimeout(() => this.#announcePending(), ANNOUNCE_MS).unref()
  }

  #announcePending(): void {
    const changes = [...this.#pending.values()]
    this.#soon = undefined
    this.#pending.clear()
    this.announceHere(changes)
    this.#relay?.announce(changes)
  }

  /** Tells the clients of this process of changes, after the plug-ins that have lists of them. */
  announceHere(changes: readonly Change[]): void {
    for (const change of changes) {
      if ('task' in change) {
        void this.#tellOfTask(change.task)
        continue
      }
      if ('tasksOf' in change) {
        this.#notifyOfOwner(change.tasksOf)
        continue
      }
      for (const watch of this.#watchers) watch(change)
      const { list, resource } = change
      if (list !== undefined) this.#notifyOfList(list)
      if (resource !== undefined) this.#notifyOfResource(resource)
    }
  }

  /** @param watch - Called with each change of a plug-in. @returns ends it. */
  watch(watch: (change: GuestChange) => void): () => void {
    this.#watchers.add(watch)
    return () => void this.#watchers.delete(watch)
  }

  #notifyOfList(list: ChangingList): void {
    for (const { request, answer, wanted } of this.#streams) {
      if (wanted.includes(list)) notify(answer, LISTS[list].notification, { _meta: metaOf(request) })
    }
  }

  #notifyOfResource(uri: string): void {
    for (const { request, answer, resources } of this.#streams)
      if (resources.has(uri)) notify(answer, RESOURCE_UPDATED, { uri, _meta: metaOf(request) })
  }

  #notifyOfOwner(owner: number): void {
    const ids = new Set([...this.#streams].flatMap(({ tasks }) => [...tasks]))
    for (const id of ids) if (ownerOf(id) === owner) void this.#tellOfTask(id)
  }

  /** A task may change faster than another process can be asked for it. */
  async #tellOfTask(id: string): Promise<void> {
    if (this.#telling.has(id)) return void this.#telling.set(id, true)
    do {
      this.#telling.set(id, false)
      await this.#notifyOfTask(id, this.#streams)
    } while (this.#telling.get(id))
    this.#telling.delete(id)
  }

  /** Sends the state of a task to its streams. If the task is no longer known, streams that wait for nothing else end. */
  async #notifyOfTask(id: string, streams: Iterable<Stream>): Promise<void> {
    for (const stream of [...streams].filter(({ tasks }) => tasks.has(id))) {
      const { request, answer } = stream
      if (this.#isLate(id, stream)) continue
      const text = await request.readTask(id).catch(() => '') // its process does not answer
      if (text === undefined) this.#dropTask(id, stream)
      else if (text !== '' && !this.#isLate(id, stream)) {
        const _meta = JSON.stringify(metaOf(request))
        answer.notify('notifications/tasks', `${text.slice(0, -1)},"_meta":${_meta}}`)
      }
    }
  }

  /** Whether a task has to wait, because the client does not read. */
  #isLate(id: string, stream: Stream): boolean {
    const { answer, late } = stream
    if (!answer.isBehind) return false
    if (late.size === 0) answer.onceRead(() => this.#catchUp(stream))
    late.add(id)
    return true
  }

  #catchUp(stream: Stream): void {
    const ids = [...stream.late]
    stream.late.clear()
    for (const id of ids) void this.#notifyOfTask(id, [stream])
  }

  #dropTask(id: string, stream: Stream): void {
    stream.tasks.delete(id)
    if (sizeOf(stream) === 0) this.#end(stream)
  }

  /**
   * Answers with a stream that stays open until the client closes it, or the server ends.
   *
   * @throws {@link RpcError} if the filter is invalid, {@link McpStreamsFullError}.
   */
  async listen(request: ListenRequest, answer: Answer): Promise<void> {
    const filter = filterOf(request)
    const wanted = wantedLists(filter, request)
    const resources = wantedResources(filter, request)
    const tasks = await wantedTasks(filter, request)
    const { kind, id } = request.client
    const alike = [...this.#streams].filter((stream) => stream.request.client.kind === kind)
    const mine = alike.filter((stream) => stream.request.client.id === id)
    if (alike.length >= MAX_STREAMS) throw new McpStreamsFullError(MAX_STREAMS, '')
    if (mine.length >= MAX_STREAMS_PER_CLIENT)
      throw new McpStreamsFullError(MAX_STREAMS_PER_CLIENT, ' of a client')
    const stream = { request, answer, wanted, resources, tasks, late: new Set<string>() }
    const notifications = {
      ...Object.fromEntries(wanted.map((list) => [LISTS[list].member, true])),
      ...(resources.size > 0 && { resourceSubscriptions: [...resources] }),
      ...(tasks.size > 0 && { taskIds: [...tasks] }),
    }
    notify(answer, 'notifications/subscriptions/acknowledged', { notifications, _meta: metaOf(request) })
    if (this.#isClosed || sizeOf(stream) === 0) {
      end(stream)
      return
    }
    this.#streams.add(stream)
    this.#heartbeat ??= setInterval(() => this.#beat(), HEARTBEAT_MS).unref()
    answer.keepOpen(() => this.#forget(stream))
    for (const id of tasks) void this.#notifyOfTask(id, [stream]) // it may have changed before the stream was open
  }

  /** Ends all streams. Clients see that no more will come, until another app answers. */
  close(): void {
    clearTimeout(this.#soon)
    this.#soon = undefined
    this.#isClosed = true
    for (const stream of this.#streams) this.#end(stream)
  }

  #end(stream: Stream): void {
    if (!this.#streams.has(stream)) return
    this.#forget(stream)
    end(stream)
  }

  #beat(): void {
    for (const { answer } of this.#streams) answer.keepAlive()
  }

  #forget(stream: Stream): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0) return
    clearInterval(this.#heartbeat)
    this.#heartbeat = undefined
  }
}

function filterOf({ params }: ListenRequest): Members {
  if (!isObject(params.notifications)) throw invalid('notifications must be an object')
  return params.notifications
}

/** The lists of the filter that the server has. */
function wantedLists(filter: Members, { lists }: ListenRequest): readonly ChangingList[] {
  const of = (list: ChangingList): unknown => filter[LISTS[list].member]
  const wrong = NAMES.find((list) => !['boolean', 'undefined'].includes(typeof of(list)))
  if (wrong !== undefined) throw invalid(`${LISTS[wrong].member} must be a boolean`)
  return NAMES.filter((list) => lists.has(list) && of(list) === true)
}

/** The resources of the filter, if the server has some. Whether it has these is only known to its plug-ins. */
function wantedResources(
  { resourceSubscriptions: given = [] }: Members,
  { lists }: ListenRequest,
): ReadonlySet<string> {
  const isText = (uri: unknown) => typeof uri === 'string'
  if (!Array.isArray(given) || given.length > MAX_RESOURCES || !given.every(isText))
    throw invalid(`resourceSubscriptions must be a list of at most ${MAX_RESOURCES} texts`)
  return new Set(lists.has('resources') ? given : [])
}

/** The tasks of the filter that the client has. */
async function wantedTasks(
  { taskIds: given = [] }: Members,
  { readTask }: ListenRequest,
): Promise<Set<string>> {
  const isText = (id: unknown) => typeof id === 'string'
  if (!Array.isArray(given) || given.length > MAX_TASKS || !given.every(isText))
    throw invalid(`taskIds must be a list of at most ${MAX_TASKS} texts`)
  const texts = await Promise.all(given.map(async (id) => [id, await readTask(id)] as const))
  return new Set(texts.flatMap(([id, text]) => (text === undefined ? [] : [id])))
}

/** How much it waits for. */
function sizeOf({ wanted, resources, tasks }: Stream): number {
  return wanted.length + resources.size + tasks.size
}

function invalid(problem: string): RpcError {
  return new RpcError(RPC_CODES.invalidParams, `Invalid params: ${problem}`, 200)
}

function end({ request, answer }: Stream): void {
  const _meta = { ...metaOf(request), [META.serverInfo]: request.serverInfo }
  answer.end(200, resultMessage(request.id, JSON.stringify({ resultType: 'complete', _meta })))
}

function notify(answer: Answer, method: string, params: Members): void {
  answer.notify(method, JSON.stringify(params))
}

function metaOf({ id }: ListenRequest): Members {
  return { [META.subscriptionId]: id }
}
