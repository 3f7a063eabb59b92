import { onTestFinished } from 'vitest'
import type { Engine } from '../../src/engine/engine.ts'
import { openInline } from '../../src/engine/inline.ts'
import { AwakeEngines, openLazy } from '../../src/engine/lazy.ts'
import { GuestProcesses } from '../../src/engine/subprocess/process-group.ts'
import { readsOfModule } from '../../src/engine/subprocess/sandbox.ts'
import { openSubprocess } from '../../src/engine/subprocess/subprocess.ts'
import { HostBridge } from '../../src/engine/workers/host-bridge.ts'
import { openWorkers, type WorkersOptions } from '../../src/engine/workers/thread.ts'
import type { Caller } from '../../src/observe/observe.ts'
import { compilePlugin, loadPlugin } from '../../src/plugin/plugin.ts'
import { readSource } from '../../src/plugin/source/source.ts'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { guest } from './guest.ts'
import { keepLog, settingsOf } from './instance.ts'

/** An implementation of the interface. */
export interface EngineKind {
  readonly name: Engine['name']
  readonly runtime: Runtime
  /** Whether it is opened by its first call. */
  readonly isLazy?: boolean
  /** Number of calls that a thread has at a time. Default: 1. */
  readonly concurrent?: number
}

/** Each engine of this process with a runtime. */
export function enginesOf(runtime: Runtime): readonly EngineKind[] {
  return (['inline', 'workers'] as const).map((name) => ({ name, runtime }))
}

/** An engine whose opening is not waited for; closed when the test ends. Its guests do not check for interrupts. */
export async function openEngine(
  { name, runtime, isLazy = false, concurrent = 1 }: EngineKind,
  guestName: string,
  options: Partial<WorkersOptions> & {
    readonly processes?: GuestProcesses
    /** The name of a process that it shares. */
    readonly process?: string
  } = {},
): Promise<Engine> {
  const { log: _log, ...settings } = settingsOf()
  const { log = keepLog() } = options
  const { isolation = { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY } } = options
  const path = guest(guestName)
  const plugin = await loadPlugin(path, { runtime: runtime.name })
  const how = { compiles: false, isolation: isolation.isolation, interrupts: 'off' } as const
  const { uncompiled } = await compilePlugin(await readSource(path), how)
  const { name: pluginName, digest, module, merge, imports, exports, memories, linked } = plugin
  const all = {
    settings,
    functions: undefined,
    isolation,
    services: [],
    bridge: new HostBridge({ run: () => undefined }, true),
    concurrent,
    log,
    workers: 1,
    spareWorkers: 1,
    startTimeoutMs: 5_000,
    backoffMs: 1_000,
    timeoutMs: 1_000,
    idempotent: false,
    maxQueue: 1_000,
    maxQueueBytes: 67_108_864,
    maxWaitMs: 20_000,
    ...options,
  }
  const engines = {
    inline: () =>
      openInline({ plugin, runtime, settings: { ...settings, log }, maxQueue: 1_000, ...isolation }),
    workers: () =>
      openWorkers({
        plugin: { name: pluginName, digest, module, merge, imports, exports, memories, linked },
        runtime: runtime.name,
        ...all,
      }),
    subprocess: () =>
      openSubprocess({
        ...all,
        plugin: {
          name: pluginName,
          digest,
          modules: uncompiled ?? [],
        },
        group: (options.processes ?? new GuestProcesses({}, log)).group(options.process),
        needs: {
          heapMiB: 128,
          dataBytes: 4 * 2 ** 30,
          reads: options.functions ? readsOfModule(options.functions) : [],
          writes: [],
        },
      }),
  } satisfies Record<Engine['name'], () => Engine>
  const awake = new AwakeEngines({ idleMs: 0 })
  const open = async () => engines[name]()
  const engine = isLazy
    ? openLazy({ name, open, instances: 1, maySleep: true, maxQueue: 1_000, awake })
    : await open()
  onTestFinished(() => engine.close())
  return engine
}

/** Calls an export with a text. @returns the output as text. */
export async function callText(
  engine: Engine,
  exportName: string,
  input: string,
  caller: Caller = { log: keepLog() },
): Promise<string> {
  return Buffer.from(await engine.call(exportName, new Uint8Array(Buffer.from(input)), caller)).toString()
}
