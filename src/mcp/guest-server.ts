import type { FastifyBaseLogger } from 'fastify'
import type { RouteCaller } from '../route/callable-route.ts'
import type { Exchange } from './exchange.ts'
import type { Members } from './json-rpc.ts'
import type { GuestChange } from './list-changes.ts'
import type { Tool } from './tool.ts'

/** The lists of MCP, by the member of the result. */
export type ListKind = 'tools' | 'resources' | 'resourceTemplates' | 'prompts'

/** The lists of what only plug-ins have. */
export type GuestListKind = Exclude<ListKind, 'tools'>

/** The member of an entry by which clients ask for it. */
export const NAMED_BY: Readonly<Record<GuestListKind, string>> = {
  prompts: 'name',
  resources: 'uri',
  resourceTemplates: 'uriTemplate',
}

/** The name, or the URI, of an entry that MCP defines. */
export function nameIn(entry: Members, kind: GuestListKind): string {
  return String(entry[NAMED_BY[kind]])
}

/** All that a plug-in lists. */
export interface GuestLists {
  readonly tools: readonly Tool[]
  readonly others: Readonly<Partial<Record<GuestListKind, readonly Members[]>>>
}

/** A plug-in that answers requests of MCP itself. Its answers are not trusted. */
export interface GuestServer {
  /** The name of the plug-in. */
  readonly plugin: string

  has(feature: 'resources' | 'prompts' | 'completions'): boolean

  /** Whether calls of its tools may become tasks. */
  readonly mayHaveTasks: boolean

  /** The tools of the guest. None if it fails. */
  tools(exchange: Exchange): Promise<readonly Tool[]>

  /** Asks the guest for its lists without a client, and warns of what cannot be used. */
  review(log: FastifyBaseLogger): Promise<GuestLists>

  /** The entries of a list. None if the guest fails, or has no such list. */
  list(kind: ListKind, exchange: Exchange): Promise<readonly Members[]>

  /**
   * Answers `resources/read`, `prompts/get` or `completion/complete`.
   *
   * @throws {@link RpcError} with the reason, if the guest fails.
   */
  answer(method: string, params: Members, exchange: Exchange): Promise<Members>

  /** The next client gets a list that is read again, if it is one of this plug-in. */
  forget(change: GuestChange): void

  /** Tells the guest that the roots of a client have changed. Never throws. @param meta - `_meta` of the notification. */
  rootsChanged(meta: Members, caller: RouteCaller): Promise<void>
}

/** The caller of a call whose result others wait for, too: it does not end when its client disconnects. */
export function lastingCaller({ request, log }: RouteCaller): RouteCaller {
  return { request, log, isGone: false }
}
