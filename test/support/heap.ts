import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Collects all garbage of this thread. */
export const collectGarbage: () => void = runInNewContext('gc')

/**
 * What this thread keeps, in bytes: objects, buffers and memories of WebAssembly.
 * Unlike the memory of the process, it has neither garbage nor compiled code.
 */
export async function keptBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  // V8 frees buffers and calls finalizers some turns after it has found that nobody can reach them.
  for (let round = 0; round < 10; round++) {
    collectGarbage()
    await nextTurn()
    const { heapUsed, external } = process.memoryUsage()
    least = Math.min(least, heapUsed + external)
  }
  return least
}
