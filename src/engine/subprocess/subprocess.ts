import type { Engine } from '../engine.ts'
import { openRunners, type RunnersOptions } from '../workers/workers.ts'
import { type ProcessOptions, processKind } from './process-runner.ts'

export interface SubprocessOptions extends Omit<RunnersOptions, 'plugin' | 'log'>, ProcessOptions {}

/**
 * Instances in processes: whatever a guest does to the engine that runs it, to memory or to a thread, it is ended with
 * its process, by the system.
 */
export function openSubprocess(options: SubprocessOptions): Engine {
  const { group, needs, bridge, plugin, settings, functions, isolation, hostParts, log } = options
  const kind = processKind({ group, needs, bridge, plugin, settings, functions, isolation, hostParts, log })
  return openRunners(kind, options)
}
