import type { FastifyBaseLogger } from 'fastify'
import { AwakeEngines } from '../engine/lazy.ts'
import { GuestProcesses } from '../engine/subprocess/process-group.ts'
import { type SharedStore, shareStore } from '../guest/store/shared-store.ts'
import { openSharedVars, type SharedVars } from '../guest/vars.ts'
import type { Meters } from '../observe/metrics.ts'
import type { Tracing } from '../observe/traces.ts'
import type { CheckedWasmServeOptions } from '../options/options.ts'

/** Resources that the routes of an app share. */
export interface AppResources {
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

interface AppResourceOptions
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
export function openAppResources(
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
  }: AppResourceOptions,
  log: FastifyBaseLogger,
): AppResources {
  const shared = shareStore(store, { maxBytes: storeMax, timeoutMs: storeTimeoutMs, mayBeAway, log })
  const processes = new GuestProcesses({ user, cgroup }, log)
  return {
    vars: openSharedVars(),
    store: shared,
    processes,
    awake: new AwakeEngines({
      maxInstances,
      idleMs,
      onLowered: (most) =>
        log.warn(
          { maxInstances: most },
          'the process has no addresses left for the memory of another instance: the least recently used ones are closed, and fewer will be open than maxInstances allows; use more processes (--processes), or fewer plug-ins that are loaded at the start',
        ),
    }),
    meters,
    tracing,
    close: () => shared.close(),
  }
}
