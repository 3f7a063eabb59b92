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
  /** Resources of guests in processes. */
  readonly processes: GuestProcesses
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
    'store' | 'storeMax' | 'storeTimeoutMs' | 'subprocessUser' | 'subprocessCgroup'
  > {
  readonly meters?: Meters | undefined
  readonly tracing?: Tracing | undefined
}

/** The store opens on first use. */
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
