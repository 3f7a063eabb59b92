import { findHostFunction, type HostFunctions } from '../guest/host-functions.ts'
import { suspending } from '../platform/missing-types.ts'
import { hostImports } from '../plugin/host-imports.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** Number of guests that stream in one thread at a time, where they are suspended while they wait. Each has its own memory. */
export const STREAMS_PER_THREAD = 256

/** The reason that the guests of a plug-in with streams cannot be suspended while they wait; undefined if they can. */
export function suspensionProblem({ linked }: Pick<Plugin, 'linked'>): string | undefined {
  if (!suspending) return 'Node.js 24 or later is required to suspend a guest that streams'
  // Between modules there may be JavaScript, which cannot be suspended.
  return linked.length > 0 ? 'a guest that streams cannot be suspended with linked modules' : undefined
}

/**
 * Number of streams that a thread has at a time. A promise of a user's function may never settle: such a guest can be ended
 * only with its thread, so the thread has no others.
 *
 * @param users - The functions of the user.
 */
export function streamsPerThread(
  plugin: Pick<Plugin, 'imports' | 'linked'>,
  users: HostFunctions = {},
): number {
  const awaits = hostImports(plugin).some(
    ({ module, name }) => findHostFunction(users, module, name)?.isAsync,
  )
  return awaits || suspensionProblem(plugin) !== undefined ? 1 : STREAMS_PER_THREAD
}
