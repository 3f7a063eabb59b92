import { setInterval, setTimeout } from 'node:timers'
import { McpStreamsFullError } from '../errors/errors.ts'
import { isObject } from '../platform/json-text.ts'
import type { Client } from '../route/client.ts'
import type { Answer } from './answer.ts'
import { type Members, type RequestId, RPC_CODES, RpcError, resultMessage } from './json-rpc.ts'
import { META } from './revisions.ts'

/*
 * Streams of clients that wait for changed lists and resources: `subscriptions/listen`, from revision 2026-07-28 on. A stream outlives the app
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

/** The other processes of a server, which have other clients and may run their requests. */
export interface AgentRelay {
  /** Cancels the only request with this key, whichever process runs it. */
  cancel(key: string): void
  /** Tells the other processes of changes. */
  announce(changes: readonly GuestChange[]): void
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

/** Open streams of all clients of one kind. */
const MAX_STREAMS = 1_000

/** Open streams of one client. Behind a reverse proxy without `trustProxy` all clients may be one. */
const MAX_STREAMS_PER_CLIENT = 100

/** How long changes are collected. */
const ANNOUNCE_MS = 20

/** Changes that are collected. Further ones are not announced. */
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
}

interface Stream {
  readonly request: ListenRequest
  readonly answer: Answer
  readonly wanted: readonly ChangingList[]
  /** URIs of resources. */
  readonly resources: ReadonlySet<string>
}

/** The streams of all apps that serve an endpoint one after the other. */
export class ListChanges {
  readonly #streams = new Set<Stream>()
  readonly #watchers = new Set<(change: GuestChange) => void>()
  readonly #relay: Pick<AgentRelay, 'announce'> | undefined
  #versions: ListVersions | undefined
  #heartbeat: NodeJS.Timeout | undefined
  /** Changes that clients will be told of, each once. */
  readonly #pending = new Map<string, GuestChange>()
  #soon: NodeJS.Timeout | undefined

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
    for (const list of NAMES.filter((name) => before?.[name] !== versions[name])) this.#notifyOfList(list)
  }

  /**
   * Tells all clients that wait for it of a change, and those of other processes: soon, because a plug-in may say so in each of many
   * calls.
   */
  announce(change: GuestChange): void {
    if (this.#pending.size >= MAX_PENDING) return
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
  announceHere(changes: readonly GuestChange[]): void {
    for (const change of changes) {
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

  /**
   * Answers with a stream that stays open until the client closes it, or the server ends.
   *
   * @throws {@link RpcError} if the filter is invalid, {@link McpStreamsFullError}.
   */
  listen(request: ListenRequest, answer: Answer): void {
    const filter = filterOf(request)
    const wanted = wantedLists(filter, request)
    const resources = wantedResources(filter, request)
    const { kind, id } = request.client
    const alike = [...this.#streams].filter((stream) => stream.request.client.kind === kind)
    const mine = alike.filter((stream) => stream.request.client.id === id)
    if (alike.length >= MAX_STREAMS) throw new McpStreamsFullError(MAX_STREAMS, '')
    if (mine.length >= MAX_STREAMS_PER_CLIENT)
      throw new McpStreamsFullError(MAX_STREAMS_PER_CLIENT, ' of a client')
    const stream = { request, answer, wanted, resources }
    const notifications = {
      ...Object.fromEntries(wanted.map((list) => [LISTS[list].member, true])),
      ...(resources.size > 0 && { resourceSubscriptions: [...resources] }),
    }
    notify(answer, 'notifications/subscriptions/acknowledged', { notifications, _meta: metaOf(request) })
    if (wanted.length === 0 && resources.size === 0) {
      end(stream)
      return
    }
    this.#streams.add(stream)
    this.#heartbeat ??= setInterval(() => this.#beat(), HEARTBEAT_MS).unref()
    answer.keepOpen(() => this.#forget(stream))
  }

  /** Ends all streams. Clients see that no more will come. */
  close(): void {
    clearTimeout(this.#soon)
    this.#soon = undefined
    for (const stream of this.#streams) end(stream)
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
