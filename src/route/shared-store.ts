import { StoreUnavailableError } from '../errors/errors.ts'
import type { StoreSettings } from '../guest/store/open-store.ts'
import type { Store } from '../guest/store/store.ts'

/** The store that all routes of an app share. */
export interface SharedStore {
  /**
   * Opens it when it is asked for first: where no plug-in has state there is no connection, and no folder.
   *
   * @throws what {@link openStore} throws, to all who ask.
   */
  open(): Promise<Store>
  close(): Promise<void>
}

/** @param url - See {@link openStore}. */
export function shareStore(url: string, settings: StoreSettings): SharedStore {
  let opening: Promise<Store> | undefined
  let isClosed = false
  return {
    open() {
      // A route may still be loading its plug-in when another has failed, and all is closed.
      if (isClosed) return Promise.reject(new StoreUnavailableError(schemeOf(url), 'it is closed'))
      opening ??= load(url, settings)
      return opening
    },
    async close() {
      isClosed = true
      const store = await opening?.catch(() => undefined) // those who asked for it were told
      await store?.close()
    },
  }
}

/** Loaded by those who need one. */
async function load(url: string, settings: StoreSettings): Promise<Store> {
  const { openStore } = await import('../guest/store/open-store.ts')
  return openStore(url, settings)
}

/** The rest may hold a password. */
function schemeOf(url: string): string {
  return url.slice(0, url.indexOf(':') + 1)
}
