import type { HostFunctions } from '../guest/host-functions.ts'
import { type KvClient, type KvReply, kvImports, serveKv, waitsForKv, withKv } from '../guest/store/kv.ts'
import { type MaybePromise, syncOf } from '../guest/store/store.ts'
import type { Counts, KvResult, RouteMeter } from '../observe/metrics.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { Plugin } from '../plugin/plugin.ts'
import type { SharedStore } from './shared.ts'

/** A route's access to the store. */
export interface RouteState {
  /** For the main thread. */
  readonly client: KvClient
  /** The user's host functions, and those of the store. */
  readonly functions: HostFunctions
  /** Whether a guest on the event loop has to wait for one of them. */
  readonly waits: boolean
}

/**
 * Opens the store for a route whose plug-in imports its functions.
 *
 * @param users - The user's host functions, which take precedence.
 * @returns undefined if it imports none or has no access.
 * @throws the errors of {@link openStore} and {@link serveKv}.
 */
export async function openRouteState(
  { kv: { access, namespace } }: ResolvedRoute,
  plugin: Plugin,
  users: HostFunctions | undefined,
  store: SharedStore,
  meter?: RouteMeter,
): Promise<RouteState | undefined> {
  if (access === 'none') return undefined
  const imports = kvImports(plugin, users)
  if (imports.length === 0) return undefined
  const served = serveKv(await store.open(), { namespace, access })
  const client = meter ? meterKv(served, meter.kv) : served
  const functions = withKv(users, imports, client)
  return { client, functions, waits: waitsForKv(functions, imports) }
}

/** Whether the guests of a route will have to wait for the store. Does not open the store. */
export function waitsForStore(
  { kv }: ResolvedRoute,
  plugin: Plugin,
  users: HostFunctions | undefined,
  url: string,
): boolean {
  if (kv.access === 'none') return false
  const imports = kvImports(plugin, users)
  const client: KvClient = {
    sync: syncOf(url),
    call: () => ({ problem: 'unavailable', message: 'it is not open' }),
  }
  return waitsForKv(withKv(users, imports, client), imports)
}

/** Counts the results of the guests' operations on the store. */
function meterKv(client: KvClient, counts: Counts<KvResult>): KvClient {
  return {
    sync: client.sync,
    call(operation, ...args) {
      const reply = client.call(operation, ...args)
      const count = (reply: KvReply<unknown>) => {
        counts.count(`${operation} ${'problem' in reply ? reply.problem : 'ok'}`)
      }
      return withCount(reply, count)
    },
  }
}

function withCount<Reply extends KvReply<unknown>>(
  reply: MaybePromise<Reply>,
  count: (reply: Reply) => void,
): MaybePromise<Reply> {
  if (reply instanceof Promise) {
    return reply.then((settled) => {
      count(settled)
      return settled
    })
  }
  count(reply)
  return reply
}
