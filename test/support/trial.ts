import { HostBridge } from '../../src/engine/workers/host-bridge.ts'
import type { ThreadOptions } from '../../src/engine/workers/thread.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { guest } from './guest.ts'
import { keepLog, settingsOf } from './instance.ts'

/** How a trial of a guest is started. @param source - Its name, or its module. */
export async function threadOptions(
  source: string | Uint8Array,
  more: Partial<ThreadOptions> = {},
): Promise<ThreadOptions> {
  const { log: _, ...settings } = settingsOf()
  const { name, digest, module, merge, imports, exports, memories, linked } = await loadPlugin(
    typeof source === 'string' ? guest(source) : source,
  )
  return {
    plugin: { name, digest, module, merge, imports, exports, memories, linked },
    runtime: 'kernel',
    settings,
    functions: undefined,
    isolation: { isolation: 'reuse', recycleMemory: Number.POSITIVE_INFINITY },
    services: [],
    bridge: new HostBridge({ run: () => undefined }, true),
    concurrent: 1,
    timeoutMs: 1_000,
    log: keepLog(),
    ...more,
  }
}
