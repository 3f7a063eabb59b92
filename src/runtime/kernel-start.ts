import type { Initialiser } from '../module/entry-points.ts'
import { ProcExit } from './wasi/wasi.ts'

/**
 * Calls what makes a module ready for its first call. What has parameters is no initialiser, but a function that has the
 * name of one; what ends itself with `proc_exit(0)` has started.
 *
 * @throws what the guest throws, and what its exit with another code throws.
 */
export function startGuest(exports: WebAssembly.Exports, initialisers: readonly Initialiser[]): void {
  try {
    for (const name of initialisers) {
      const run = exports[name]
      if (!isFunction(run)) continue
      if (name === 'hs_init')
        run(0, 0) // argc, argv
      else if (run.length === 0) run()
    }
  } catch (thrown) {
    if (!(thrown instanceof ProcExit && thrown.code === 0)) throw thrown
  }
}

function isFunction(value: unknown): value is (...args: number[]) => unknown {
  return typeof value === 'function'
}
