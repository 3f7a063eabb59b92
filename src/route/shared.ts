import type { FastifyBaseLogger } from 'fastify'
import { AwakeEngines } from '../engine/lazy.ts'
import { GuestProcesses } from '../engine/subprocess/process-group.ts'
import { StoreUnavailableError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import { type KvClient, type KvReply, kvImports, serveKv, waitsForKv, withKv } from '../guest/store/kv.ts'
import type { StoreSettings } from '../guest/store/open-store.ts'
import { type MaybePromise, type Store, syncOf } from '../guest/store/store.ts'
import { openVars, type Vars } from '../guest/vars.ts'
import type { Meters, RouteMeter } from '../observe/metrics.ts'
import type { Tracing } from '../observe/traces.ts'
import type { CheckedWasmServeOptions } from '../options/options.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** Resources that the routes of an app share. */
export interface SharedResources {
  readonly vars: SharedVars
  readonly store: SharedStore
  /** Resources of guests in processes. */
  readonly processes: GuestProcesses
  /** The plug-ins that were loaded by calls. */
  readonly awake: AwakeEngines
  /** The call metrics, if enabled. */
  readonly meters: Meters | undefined
  /** Creates spans, if tracing is enabled. */
  readonly tracing: Tracing | undefined
  /** Only after the routes are closed: guests use it to their end. */
  close(): Promise<void>
}

export interface SharedResourceOptions
  extends Pick<
    CheckedWasmServeOptions,
    | 'store'
    | 'storeMax'
    | 'storeTimeoutMs'
    | 'subprocessUser'
    | 'subprocessCgroup'
    | 'maxInstances'
    | 'idleMs'
  > {
  readonly meters?: Meters | undefined
  readonly tracing?: Tracing | undefined
  /** Whether the store may be opened while it cannot be reached. */
  readonly storeMayBeAway?: boolean | undefined
}

/** The store opens on first use. */
export function openSharedResources(
  {
    store,
    storeMax,
    storeTimeoutMs,
    subprocessUser: user,
    subprocessCgroup: cgroup,
    maxInstances,
    idleMs,
    meters,
    tracing,
    storeMayBeAway: mayBeAway,
  }: SharedResourceOptions,
  log: FastifyBaseLogger,
): SharedResources {
  const shared = shareStore(store, { maxBytes: storeMax, timeoutMs: storeTimeoutMs, mayBeAway, log })
  const processes = new GuestProcesses({ user, cgroup }, log)
  return {
    vars: openSharedVars(),
    store: shared,
    processes,
    awake: new AwakeEngines({ maxInstances, idleMs }),
    meters,
    tracing,
    close: () => shared.close(),
  }
}

/** Variables shared by all instances and routes of a plug-in. */
export interface SharedVars {
  /** @param limit - Maximum size in bytes, from the first route that asks. */
  open(plugin: Plugin, limit: number): UsedVars
}

/** Variables that a route uses. */
interface UsedVars {
  readonly vars: Vars
  /** The last close deletes them: versions come and go, and their variables must not accumulate. */
  close(): void
}

/** Plug-ins are the same if their names and bytes are equal. */
function openSharedVars(): SharedVars {
  const sets = new Map<string, { readonly vars: Vars; users: number }>()
  return {
    open({ name, digest }, limit) {
      const key = `${digest} ${name}`
      const set = sets.get(key) ?? { vars: openVars(limit), users: 0 }
      set.users++
      sets.set(key, set)
      let isOpen = true
      return {
        vars: set.vars,
        close() {
          if (isOpen && --set.users === 0) sets.delete(key)
          isOpen = false
        },
      }
    },
  }
}

/** The store shared by all routes of an app. */
export interface SharedStore {
  /** Whether it was opened. */
  readonly isUsed: boolean
  /**
   * Opens the store on first use: without stateful plug-ins there is no connection and no folder.
   *
   * @throws the error of {@link openStore}, to every caller.
   */
  open(): Promise<Store>
  close(): Promise<void>
}

/** @param url - See {@link openStore}. */
function shareStore(url: string, settings: StoreSettings): SharedStore {
  let opening: Promise<Store> | undefined
  let isClosed = false
  return {
    get isUsed() {
      return opening !== undefined
    },
    open() {
      // A route may still be loading its plug-in when another has failed and everything is closed.
      if (isClosed) return Promise.reject(new StoreUnavailableError(schemeOf(url), 'the store is closed'))
      opening ??= loadStore(url, settings)
      return opening
    },
    async close() {
      isClosed = true
      const store = await opening?.catch(() => undefined) // callers got the error
      await store?.close()
    },
  }
}

/** Loaded on demand. */
async function loadStore(url: string, settings: StoreSettings): Promise<Store> {
  const { openStore } = await import('../guest/store/open-store.ts')
  return openStore(url, settings)
}

/** Only the scheme: the rest may contain a password. */
function schemeOf(url: string): string {
  return url.slice(0, url.indexOf(':') + 1)
}

/** A route's access to the store. */
interface RouteState {
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
  const client = meter ? meterKv(served, meter) : served
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
function meterKv(client: KvClient, meter: RouteMeter): KvClient {
  return {
    sync: client.sync,
    call(operation, ...args) {
      const reply = client.call(operation, ...args)
      const count = (reply: KvReply<unknown>) => {
        meter.countKv(`${operation} ${'problem' in reply ? reply.problem : 'ok'}`)
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
