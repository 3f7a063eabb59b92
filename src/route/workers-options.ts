import { HostBridge } from '../engine/workers/host-bridge.ts'
import type { InstantiablePlugin } from '../engine/workers/protocol.ts'
import type { WorkersOptions } from '../engine/workers/workers.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import { shortened } from '../plugin/on-demand.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import { INITIALISERS } from '../plugin/start.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'
import type { EngineChoice } from './engine-choice.ts'
import type { BridgedParts } from './host-parts.ts'

/** How long to wait after the first failed start of a thread. */
const BACKOFF_MS = 1_000

/** How the threads of a route are to be. */
export function workersOptions(
  options: ResolvedRoute,
  plugin: CompiledPlugin,
  exportName: string,
  { workers, timeoutMs = Number.POSITIVE_INFINITY }: Extract<EngineChoice, { name: 'workers' }>,
  instances: InstanceSettings,
  parts: BridgedParts,
): WorkersOptions {
  const { spareWorkers, startTimeoutMs, idempotent, maxQueue, maxQueueBytes, maxWaitMs, runtime } = options
  const { functions: _functions, log, ...settings } = instances
  return {
    plugin: toPost(plugin, exportName, options),
    runtime,
    route: (options.host ?? '') + options.url,
    settings,
    functions: typeof options.functions === 'string' ? options.functions : undefined,
    isolation: options.isolation,
    hostParts: parts.names,
    bridge: new HostBridge(parts.operations, Number.isFinite(timeoutMs)),
    log,
    workers,
    spareWorkers,
    startTimeoutMs,
    backoffMs: BACKOFF_MS,
    timeoutMs,
    idempotent,
    maxQueue,
    maxQueueBytes,
    maxWaitMs,
  }
}

/** To post what nobody asks for would hold the event loop: a module may export 100,000 things. */
function toPost(
  { name, digest, module, onDemand, renewable, imports, exports, linked }: CompiledPlugin,
  exportName: string,
  { functions, runtime }: ResolvedRoute,
): InstantiablePlugin {
  const isAlone = linked.length === 0 && functions === undefined && runtime === 'kernel'
  const known = isAlone ? shortened(exports, [exportName, ...INITIALISERS]) : exports
  return { name, digest, module, onDemand, renewable, imports, exports: known, linked }
}
