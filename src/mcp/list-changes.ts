import { setInterval } from 'node:timers'
import { McpStreamsFullError } from '../errors/errors.ts'
import { isObject } from '../platform/json-text.ts'
import type { Client } from '../route/client.ts'
import type { Answer } from './answer.ts'
import { type Members, type RequestId, RPC_CODES, RpcError, resultMessage } from './json-rpc.ts'
import { META } from './revisions.ts'

/*
 * Streams of clients that wait for changed lists: `subscriptions/listen`, from revision 2026-07-28 on. A stream outlives the app
 * that has opened it, because the event it waits for is another app, after a reload.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
 */

/** Identifies the content of each list: another text is another list. */
export type ListVersions = Readonly<Record<ChangingList, string>>

/** A list whose changes clients can wait for. */
export type ChangingList = keyof typeof LISTS

/** The member of the filter and the notification, by list. */
const LISTS = {
  tools: { member: 'toolsListChanged', notification: 'notifications/tools/list_changed' },
  prompts: { member: 'promptsListChanged', notification: 'notifications/prompts/list_changed' },
  resources: { member: 'resourcesListChanged', notification: 'notifications/resources/list_changed' },
} as const

const NAMES: readonly ChangingList[] = ['tools', 'prompts', 'resources']

/** Open streams of all clients of one kind. */
const MAX_STREAMS = 1_000

/** Open streams of one client. Behind a reverse proxy without `trustProxy` all clients may be one. */
const MAX_STREAMS_PER_CLIENT = 100

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
}

/** The streams of all apps that serve an endpoint one after the other. */
export class ListChanges {
  readonly #streams = new Set<Stream>()
  #versions: ListVersions | undefined
  #heartbeat: NodeJS.Timeout | undefined

  /** Sets the lists of the first app. Has no effect later. */
  begin(versions: ListVersions): void {
    this.#versions ??= versions
  }

  /** Sets the lists of the app that answers from now on. Clients that wait for those that differ get a notification. */
  replace(versions: ListVersions): void {
    const before = this.#versions
    this.#versions = versions
    for (const list of NAMES.filter((name) => before?.[name] !== versions[name])) this.announce(list)
  }

  /** Notifies the clients that wait for a list. */
  announce(list: ChangingList): void {
    for (const { request, answer, wanted } of this.#streams) {
      if (wanted.includes(list)) answer.notify(LISTS[list].notification, { _meta: metaOf(request) })
    }
  }

  /**
   * Answers with a stream that stays open until the client closes it, or the server ends.
   *
   * @throws {@link RpcError} if the filter is invalid, {@link McpStreamsFullError}.
   */
  listen(request: ListenRequest, answer: Answer): void {
    const wanted = wantedLists(request)
    const { kind, id } = request.client
    const alike = [...this.#streams].filter((stream) => stream.request.client.kind === kind)
    const mine = alike.filter((stream) => stream.request.client.id === id)
    if (alike.length >= MAX_STREAMS) throw new McpStreamsFullError(MAX_STREAMS, '')
    if (mine.length >= MAX_STREAMS_PER_CLIENT)
      throw new McpStreamsFullError(MAX_STREAMS_PER_CLIENT, ' of a client')
    const stream = { request, answer, wanted }
    const notifications = Object.fromEntries(wanted.map((list) => [LISTS[list].member, true]))
    answer.notify('notifications/subscriptions/acknowledged', { notifications, _meta: metaOf(request) })
    if (wanted.length === 0) {
      end(stream)
      return
    }
    this.#streams.add(stream)
    this.#heartbeat ??= setInterval(() => this.#beat(), HEARTBEAT_MS).unref()
    answer.keepOpen(() => this.#forget(stream))
  }

  /** Ends all streams. Clients see that no more will come. */
  close(): void {
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

/** The lists of the filter that the server has. Changes of single resources are not known. */
function wantedLists({ params, lists }: ListenRequest): readonly ChangingList[] {
  const { notifications } = params
  if (!isObject(notifications))
    throw new RpcError(RPC_CODES.invalidParams, 'Invalid params: notifications must be an object', 200)
  const of = (list: ChangingList): unknown => notifications[LISTS[list].member]
  const wrong = NAMES.find((list) => !['boolean', 'undefined'].includes(typeof of(list)))
  if (wrong !== undefined)
    throw new RpcError(
      RPC_CODES.invalidParams,
      `Invalid params: ${LISTS[wrong].member} must be a boolean`,
      200,
    )
  return NAMES.filter((list) => lists.has(list) && of(list) === true)
}

function end({ request, answer }: Stream): void {
  const _meta = { ...metaOf(request), [META.serverInfo]: request.serverInfo }
  answer.end(200, resultMessage(request.id, JSON.stringify({ resultType: 'complete', _meta })))
}

function metaOf({ id }: ListenRequest): Members {
  return { [META.subscriptionId]: id }
}
