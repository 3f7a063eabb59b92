import { HostBridge } from '../engine/workers/host-bridge.ts'
import type { WorkersOptions } from '../engine/workers/workers.ts'
import { INITIALISERS } from '../module/entry-points.ts'
import { shortened } from '../module/on-demand.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'
import type { EngineChoice } from './engine-choice.ts'
import type { BridgedParts } from './host-parts.ts'

/** How long to wait after the first failed start of a thread. */
const BACKOFF_MS = 1_000

/** How the threads of a route are to be. */
export function workersOptions(
  options: ResolvedRoute,
  whole: CompiledPlugin,
  exportName: string,
  { workers, timeoutMs = Number.POSITIVE_INFINITY }: Extract<EngineChoice, { name: 'workers' }>,
  instances: InstanceSettings,
  parts: BridgedParts,
): WorkersOptions {
  const { spareWorkers, startTimeoutMs, idempotent, maxQueue, maxQueueBytes, maxWaitMs, runtime } = options
  const { functions: _functions, log, ...settings } = instances
  const plugin = withFewExports(whole, exportName, options)
  const { name, digest, module, onDemand, renewable, imports, exports, linked } = plugin
  return {
    plugin: { name, digest, module, onDemand, renewable, imports, exports, linked },
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

/**
 * The plug-in with those of its exports that a route needs. A module may export 100,000 things: to post them to a thread,
 * or to look through them for each route, would hold the event loop.
 */
export function withFewExports(
  plugin: CompiledPlugin,
  exportName: string,
  { functions, runtime }: ResolvedRoute,
): CompiledPlugin {
  if (plugin.linked.length > 0 || functions !== undefined || runtime !== 'kernel') return plugin
  const exports = shortened(plugin.exports, [exportName, ...INITIALISERS])
  return exports === plugin.exports ? plugin : { ...plugin, exports }
}
