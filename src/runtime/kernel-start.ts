import { ProcExit } from './wasi.ts'

/**
 * Runs what a toolchain wants to run first: the initialisation of a reactor, the whole program of a command, the
 * run-time system of Haskell. A command that ends itself with `proc_exit(0)` has started.
 *
 * @throws what the guest throws, and what its exit with another code throws.
 */
export function startGuest(exports: WebAssembly.Exports): void {
  const { _initialize: initialize, _start: start, hs_init: haskell } = exports
  try {
    if (isFunction(initialize)) initialize()
    else if (isFunction(start) && !haskell) start()
    if (isFunction(haskell)) haskell(0, 0) // argc, argv
  } catch (thrown) {
    if (!(thrown instanceof ProcExit && thrown.code === 0)) throw thrown
  }
}

function isFunction(value: unknown): value is (...args: number[]) => unknown {
  return typeof value === 'function'
}
