import type { FastifyBaseLogger } from 'fastify'
import { GuestProcesses } from '../engine/subprocess/process-group.ts'
import type { Meters } from '../observe/metrics.ts'
import type { Tracing } from '../observe/traces.ts'
import type { CheckedWasmServeOptions } from '../options/options.ts'
import { type SharedStore, shareStore } from './shared-store.ts'
import { openSharedVars, type SharedVars } from './shared-vars.ts'

/** What the routes of an app share. */
export interface Shared {
  readonly vars: SharedVars
  readonly store: SharedStore
  /** Those of guests that have processes of their own. */
  readonly processes: GuestProcesses
  /** Where their calls are counted, if they are. */
  readonly meters: Meters | undefined
  /** What makes their spans, if there are any. */
  readonly tracing: Tracing | undefined
  /** Not before the routes are closed: guests use it to their end. */
  close(): Promise<void>
}

export interface SharedOptions
  extends Pick<
    CheckedWasmServeOptions,
    'store' | 'storeMax' | 'storeTimeoutMs' | 'subprocessUser' | 'subprocessCgroup'
  > {
  readonly meters?: Meters | undefined
  readonly tracing?: Tracing | undefined
}

/** Opens nothing yet that costs anything: the store opens when a guest needs it. */
export function openShared(
  {
    store,
    storeMax,
    storeTimeoutMs,
    subprocessUser: user,
    subprocessCgroup: cgroup,
    meters,
    tracing,
  }: SharedOptions,
  log: FastifyBaseLogger,
): Shared {
  const shared = shareStore(store, { maxBytes: storeMax, timeoutMs: storeTimeoutMs, log })
  const processes = new GuestProcesses({ user, cgroup }, log)
  return { vars: openSharedVars(), store: shared, processes, meters, tracing, close: () => shared.close() }
}
