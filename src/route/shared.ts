import type { FastifyBaseLogger } from 'fastify'
import type { CheckedWasmServeOptions } from '../config/options.ts'
import { type SharedStore, shareStore } from './shared-store.ts'
import { openSharedVars, type SharedVars } from './shared-vars.ts'

/** What the routes of an app share. */
export interface Shared {
  readonly vars: SharedVars
  readonly store: SharedStore
  /** Not before the routes are closed: guests use it to their end. */
  close(): Promise<void>
}

/** Opens nothing yet that costs anything: the store opens when a guest needs it. */
export function openShared(
  { store, storeMax, storeTimeoutMs }: Pick<CheckedWasmServeOptions, 'store' | 'storeMax' | 'storeTimeoutMs'>,
  log: FastifyBaseLogger,
): Shared {
  const shared = shareStore(store, { maxBytes: storeMax, timeoutMs: storeTimeoutMs, log })
  return { vars: openSharedVars(), store: shared, close: () => shared.close() }
}
