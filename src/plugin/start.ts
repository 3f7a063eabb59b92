/** The program of a WASI command: it is run once in an instance, and what it leaves behind is not used again. */
export const START = '_start'

/** Names of exports that make a module ready for its first call. */
export const INITIALISERS = ['_initialize', 'hs_init', '__wasm_call_ctors', START] as const

export type Initialiser = (typeof INITIALISERS)[number]

/**
 * The exports of a module that are called when an instance is opened, in order. As in Extism's Rust and Go SDKs, the
 * constructors are called where there is no `_initialize`, which calls them itself, and the program of a WASI command is
 * not run: it may read an input, or exit with a status. A module without WASI is no such command: its `_start` is run, as
 * Extism's JavaScript SDK does.
 *
 * @param exported - Names of its functions.
 * @see {@link https://github.com/WebAssembly/WASI/blob/main/legacy/application-abi.md}
 */
export function initialisersOf(exported: ReadonlySet<string>, importsWasi: boolean): readonly Initialiser[] {
  const initialize = exported.has('_initialize') ? (['_initialize'] as const) : []
  if (exported.has('hs_init')) return [...initialize, 'hs_init']
  if (initialize.length > 0) return initialize
  if (exported.has('__wasm_call_ctors')) return ['__wasm_call_ctors']
  return exported.has(START) && !importsWasi ? [START] : []
}

/**
 * Whether a module that others link is a command: each call of a function of it is then a run of its own. One with
 * `_initialize` is made to live from call to call.
 */
export function isCommand(exported: ReadonlySet<string>): boolean {
  return exported.has(START) && !exported.has('_initialize')
}
