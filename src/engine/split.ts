import { GuestError } from '../errors.ts'
import type { Caller } from '../runtime/runtime.ts'
import type { Engine } from './engine.ts'
import { addStats } from './stats.ts'
import type { VersionCounts } from './version-counts.ts'

/** One of the versions that calls are split between. */
export interface SplitVersion {
  readonly engine: Engine
  readonly exportName: string
  readonly counts: VersionCounts
}

/**
 * Gives each call to one of two versions. Nothing is left to chance: of any 100 calls in a row exactly `percent` go to
 * the second, and they are spread evenly. The engines belong to who opened them.
 *
 * @param percent - From 0 to 100.
 */
export function splitCalls(first: SplitVersion, second: SplitVersion, percent: number): Engine {
  let owed = 0
  const next = (): SplitVersion => {
    owed += percent
    if (owed < 100) return first
    owed -= 100
    return second
  }
  return {
    name: first.engine.name,
    get trouble() {
      return first.engine.trouble ?? second.engine.trouble
    },
    get stats() {
      return addStats(first.engine.stats, second.engine.stats)
    },
    ready: Promise.all([first.engine.ready, second.engine.ready]).then(() => undefined),
    call: (_exportName, input, caller) => callCounted(next(), input, caller),
    close: async () => undefined,
  }
}

function callCounted(
  { engine, exportName, counts }: SplitVersion,
  input: Uint8Array,
  caller: Caller,
): ReturnType<Engine['call']> {
  counts.calls++
  const failed = (error: unknown): never => {
    if (!(error instanceof GuestError)) counts.failures++
    throw error
  }
  try {
    const output = engine.call(exportName, input, caller)
    return output instanceof Uint8Array ? output : output.then((bytes) => bytes, failed)
  } catch (error) {
    return failed(error)
  }
}
