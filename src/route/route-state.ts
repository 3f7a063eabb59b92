import type { HostFunctions } from '../guest/host-functions.ts'
import { type KvClient, serveKv } from '../guest/store/kv.ts'
import { kvImports, waitsForKv, withKv } from '../guest/store/kv-functions.ts'
import { syncOf } from '../guest/store/store.ts'
import { meterKv } from '../observe/metered-kv.ts'
import type { RouteMeter } from '../observe/route-meter.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { Plugin } from '../plugin/plugin.ts'
import type { SharedStore } from './shared-store.ts'

/** The store, as the guests of one route may use it. */
export interface RouteState {
  /** On the main thread. */
  readonly client: KvClient
  /** The user's host functions, and those by which guests reach the client. */
  readonly functions: HostFunctions
  /** Whether a guest on the event loop has to wait for one of them. */
  readonly waits: boolean
}

/**
 * Opens the store for a route whose plug-in imports its functions.
 *
 * @param users - Host functions of the user, which win.
 * @returns undefined if it imports none, or may not have them.
 * @throws what {@link openStore} and {@link serveKv} throw.
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

/** Whether the guests of a route will have to wait for the store: told without opening it. */
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
