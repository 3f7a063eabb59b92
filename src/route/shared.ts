import type { FastifyBaseLogger } from 'fastify'
import { GuestProcesses } from '../engine/subprocess/process-group.ts'
import { StoreUnavailableError } from '../errors/errors.ts'
import type { StoreSettings } from '../guest/store/open-store.ts'
import type { Store } from '../guest/store/store.ts'
import { openVars, type Vars } from '../guest/vars.ts'
import type { Meters } from '../observe/metrics.ts'
import type { Tracing } from '../observe/traces.ts'
import type { CheckedWasmServeOptions } from '../options/options.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** Resources that the routes of an app share. */
export interface SharedResources {
  readonly vars: SharedVars
  readonly store: SharedStore
  /** Those of guests that have processes of their own. */
  readonly processes: GuestProcesses
  /** Where their calls are counted, if they are. */
  readonly meters: Meters | undefined
  /** Makes their spans, if tracing is on. */
  readonly tracing: Tracing | undefined
  /** Not before the routes are closed: guests use it to their end. */
  close(): Promise<void>
}

export interface SharedResourceOptions
  extends Pick<
    CheckedWasmServeOptions,
    'store' | 'storeMax' | 'storeTimeoutMs' | 'subprocessUser' | 'subprocessCgroup'
  > {
  readonly meters?: Meters | undefined
  readonly tracing?: Tracing | undefined
}

/** Opens no store yet: it opens when a guest needs it. */
export function openSharedResources(
  {
    store,
    storeMax,
    storeTimeoutMs,
    subprocessUser: user,
    subprocessCgroup: cgroup,
    meters,
    tracing,
  }: SharedResourceOptions,
  log: FastifyBaseLogger,
): SharedResources {
  const shared = shareStore(store, { maxBytes: storeMax, timeoutMs: storeTimeoutMs, log })
  const processes = new GuestProcesses({ user, cgroup }, log)
  return { vars: openSharedVars(), store: shared, processes, meters, tracing, close: () => shared.close() }
}

/** Variables that all instances and routes of a plug-in share. */
export interface SharedVars {
  /** @param limit - Most bytes; that of the route that asks first counts. */
  open(plugin: Plugin, limit: number): UsedVars
}

/** Variables that a route uses. */
interface UsedVars {
  readonly vars: Vars
  /** The last that closes them ends them: versions come and go, and theirs are not to stay. */
  close(): void
}

/** Plug-ins are the same if they have the same name and the same bytes. */
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

/** The store that all routes of an app share. */
export interface SharedStore {
  /**
   * Opens it when it is asked for first: where no plug-in has state there is no connection, and no folder.
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
    open() {
      // A route may still be loading its plug-in when another has failed, and all is closed.
      if (isClosed) return Promise.reject(new StoreUnavailableError(schemeOf(url), 'it is closed'))
      opening ??= loadStore(url, settings)
      return opening
    },
    async close() {
      isClosed = true
      const store = await opening?.catch(() => undefined) // its callers got the error
      await store?.close()
    },
  }
}

/** Loaded on demand. */
async function loadStore(url: string, settings: StoreSettings): Promise<Store> {
  const { openStore } = await import('../guest/store/open-store.ts')
  return openStore(url, settings)
}

/** The rest may hold a password. */
function schemeOf(url: string): string {
  return url.slice(0, url.indexOf(':') + 1)
}
