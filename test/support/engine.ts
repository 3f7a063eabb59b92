import { onTestFinished } from 'vitest'
import type { Engine } from '../../src/engine/engine.ts'
import { openInline } from '../../src/engine/inline.ts'
import { HostBridge } from '../../src/engine/workers/host-bridge.ts'
import { openWorkers, type WorkersOptions } from '../../src/engine/workers.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import type { Caller, Runtime } from '../../src/runtime/runtime.ts'
import { guest } from './guest.ts'
import { keepLog, settingsOf } from './instance.ts'

/** An implementation of the interface. */
export interface EngineKind {
  readonly name: Engine['name']
  readonly runtime: Runtime
}

/** Each engine with a runtime. */
export function enginesOf(runtime: Runtime): readonly EngineKind[] {
  return (['inline', 'workers'] as const).map((name) => ({ name, runtime }))
}

/** An engine whose opening is not waited for; closed when the test ends. */
export async function openEngine(
  { name, runtime }: EngineKind,
  guestName: string,
  options: Partial<WorkersOptions> = {},
): Promise<Engine> {
  const { log: _log, ...settings } = settingsOf()
  const { log = keepLog() } = options
  const { isolation = { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY } } = options
  const plugin = await loadPlugin(guest(guestName))
  const { digest, module, imports, exports, linked } = plugin
  const engine =
    name === 'inline'
      ? openInline({ plugin, runtime, settings: { ...settings, log }, maxQueue: 1_000, ...isolation })
      : openWorkers({
          plugin: { name: plugin.name, digest, module, imports, exports, linked },
          runtime: runtime.name,
          settings,
          functions: undefined,
          isolation,
          hostParts: [],
          bridge: new HostBridge({}, true),
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
        })
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
