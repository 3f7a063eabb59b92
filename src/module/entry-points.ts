import { FunctionUnknownError, PluginForeignError } from '../errors/errors.ts'
import { didYouMean } from '../platform/text.ts'
import { foreignKind } from './foreign.ts'
import type { FunctionExport, ImportedItem, Signature } from './module-view.ts'

/** The program of a WASI command: it runs once per instance, and its state is not reused. */
export const START = '_start'

/** Names of exports that initialize a module before its first call. */
export const INITIALISERS = ['_initialize', 'hs_init', '__wasm_call_ctors', START] as const

export type Initialiser = (typeof INITIALISERS)[number]

/** Whether a function of this name may initialize its module. */
export function isInitialiser(name: string): name is Initialiser {
  return INITIALISERS.some((known) => known === name)
}

/**
 * The exports of a module that are called when an instance is opened, in order. As in Extism's Rust and Go SDKs, the
 * constructors are called only without an `_initialize`, which calls them itself, and the program of a WASI command is
 * not run: it may read an input, or exit with a status. A module without WASI is not such a command: its `_start` is
 * run, as in Extism's JavaScript SDK.
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
 * Whether a linked module is a command: then each call of one of its functions uses a new instance. A module with
 * `_initialize` keeps its instance between calls.
 */
export function isCommand(exported: ReadonlySet<string>): boolean {
  return exported.has(START) && !exported.has('_initialize')
}

/** A function export of a module or a plug-in. */
interface WithFunctions {
  readonly functions: readonly FunctionExport[]
  readonly imports?: readonly ImportedItem[]
}

/**
 * Names of the exports that are called by default: those that return nothing or one i32, Extism's return code, if there are
 * any; otherwise those with other results; otherwise the program of a WASI command (`_start`), which toolchains add even to
 * modules that are used for their functions. Exports that a toolchain added do not count.
 */
export function callableExports({ functions }: WithFunctions): readonly string[] {
  const known = callables.get(functions)
  if (known) return known
  const usual: string[] = []
  const others: string[] = []
  const programs: string[] = []
  for (const each of functions) {
    if (problemWithExport(each) !== undefined) continue
    const { name, signature } = each
    const isUsual = signature.results.every((type) => type === 'i32') && signature.results.length < 2
    const names = name === START ? programs : isUsual ? usual : others
    names.push(name)
  }
  const found = [usual, others, programs].find((names) => names.length > 0) ?? []
  callables.set(functions, found)
  return found
}

/** Cached, because each route of a plug-in needs them. */
const callables = new WeakMap<WithFunctions['functions'], readonly string[]>()

/** Whether only the program of a module can be called: each call then needs a new instance. */
export function isOnlyProgram(module: WithFunctions): boolean {
  const [first, ...others] = callableExports(module).slice(0, 2)
  return first === START && others.length === 0
}

/**
 * The export that a route calls: the one named, or the only one that can be called.
 *
 * @throws {@link FunctionUnknownError} listing the available functions.
 */
export function chooseExport(
  plugin: WithFunctions & { readonly name: string },
  named: string | undefined,
): string {
  const callable = callableExports(plugin)
  if (named === undefined) {
    const [only, ...others] = callable
    if (only === undefined) throw notCallable(plugin, nothingToCall(plugin))
    if (others.length > 0) {
      throw new FunctionUnknownError(
        plugin.name,
        `it has several functions, name one of them: ${listNames(callable)}`,
      )
    }
    return only
  }

  const exported = plugin.functions.find(({ name }) => name === named)
  if (!exported) {
    if (callable.length === 0) throw notCallable(plugin, nothingToCall(plugin))
    throw new FunctionUnknownError(
      plugin.name,
      `it has no function "${named}"${didYouMean(named, callable)} (it has ${listNames(callable)})`,
    )
  }
  if (!hasCallSignature(exported.signature)) {
    const problem = `"${named}" is ${describeExport(exported.signature)}; a function that can be called takes nothing and returns numbers or nothing`
    throw notCallable(plugin, problem)
  }
  return named
}

/**
 * Why an export cannot be served.
 *
 * @returns undefined if it can.
 */
export function problemWithExport({ name, signature }: FunctionExport): string | undefined {
  if (!hasCallSignature(signature)) return `it is ${describeExport(signature)}`
  return TOOLCHAIN.test(name) ? 'its toolchain added it for internal use' : undefined
}

function notCallable(plugin: WithFunctions & { readonly name: string }, problem: string): Error {
  const { name, functions, imports } = plugin
  const kind = foreignKind({ ...(imports && { imports }), names: functions.map((each) => each.name) })
  return kind === undefined ? new FunctionUnknownError(name, problem) : new PluginForeignError(name, kind)
}

function nothingToCall(plugin: WithFunctions): string {
  const others = plugin.functions.map(({ name, signature }) => `${name} ${describeExport(signature)}`)
  const found = others.length > 0 ? `it exports only ${listNames(others)}` : 'it exports no functions at all'
  return `no function can be called: ${found}; one that can takes nothing, and reads its input with an Extism PDK`
}

function hasCallSignature({ params, results }: Signature): boolean {
  return params.length === 0 && results.every((type) => NUMBERS.has(type))
}

const NUMBERS: ReadonlySet<string> = new Set(['i32', 'i64', 'f32', 'f64'])

/**
 * Exports with a callable signature that toolchains add: initialisers, C and C++ runtimes, allocators and collectors,
 * hooks of Emscripten and Asyncify, schedulers of Go and Nim.
 */
const TOOLCHAIN =
  /^(?:__|_initialize$|hs_(?:init|exit)|asyncify_|emscripten_|stack(?:Save|Alloc|Restore)$|malloc$|calloc$|realloc$|free$|NimMain|go_scheduler$|resume$)/

function describeExport({ params, results }: Signature): string {
  return `(${params.join(', ')}) -> (${results.join(', ')})`
}

/** Lists at most a dozen names, because the message is for people. */
function listNames(names: readonly string[]): string {
  const shown = names.slice(0, 12).join(', ')
  return names.length > 12 ? `${shown} and ${names.length - 12} more` : shown
}
