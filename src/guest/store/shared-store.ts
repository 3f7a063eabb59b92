import { StoreUnavailableError } from '../../errors/errors.ts'
import type { StoreSettings } from './open-store.ts'
import { type Store, type StoreSync, syncOf } from './store.ts'

/** The store shared by all routes of an app. */
export interface SharedStore {
  readonly sync: StoreSync
  /** Whether it was opened. */
  readonly isUsed: boolean
  /**
   * Opens the store on first use: without stateful plug-ins there is no connection and no folder.
   *
   * @throws the error of {@link openStore}, to every caller.
   */
  open(): Promise<Store>
  /** Opens an empty store in memory, for a guest that is tried. */
  openEmpty(): Promise<Store>
  close(): Promise<void>
}

/** @param url - See {@link openStore}. */
export function shareStore(url: string, settings: StoreSettings): SharedStore {
  let opening: Promise<Store> | undefined
  let isClosed = false
  return {
    sync: syncOf(url),
    get isUsed() {
      return opening !== undefined
    },
    open() {
      // A route may still be loading its plug-in when another has failed and everything is closed.
      if (isClosed) return Promise.reject(new StoreUnavailableError(schemeOf(url), 'the store is closed'))
      opening ??= loadStore(url, settings)
      return opening
    },
    async openEmpty() {
      const { openMemoryStore } = await import('./memory.ts')
      return openMemoryStore({ maxBytes: EMPTY_STORE_BYTES })
    },
    async close() {
      isClosed = true
      const store = await opening?.catch(() => undefined) // callers got the error
      await store?.close()
    },
  }
}

/** Space for a few values of the maximum size. */
const EMPTY_STORE_BYTES = 4_194_304

/** Loaded on demand. */
async function loadStore(url: string, settings: StoreSettings): Promise<Store> {
  const { openStore } = await import('./open-store.ts')
  return openStore(url, settings)
}

/** Only the scheme: the rest may contain a password. */
function schemeOf(url: string): string {
  return url.slice(0, url.indexOf(':') + 1)
}
