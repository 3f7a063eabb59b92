import { FunctionUnknownError } from '../errors/errors.ts'
import { didYouMean } from '../platform/nearest.ts'
import type { FunctionExport, Signature } from './module.ts'
import type { Plugin } from './plugin.ts'
import { START } from './start.ts'

/**
 * Names of the exports that can be served: no parameters, no result or one i32 (Extism's return code), and not one
 * that a toolchain adds for itself. The program of a WASI command (`_start`) is one if there is no other: a toolchain
 * adds one to modules that are made for their functions, too.
 */
export function callableExports({ functions }: Pick<Plugin, 'functions'>): readonly string[] {
  const known = callables.get(functions)
  if (known) return known
  const others: string[] = []
  let hasProgram = false
  for (const { name, signature } of functions) {
    if (!hasCallSignature(signature) || TOOLCHAIN.test(name)) continue
    if (name === START) hasProgram = true
    else others.push(name)
  }
  const found = others.length === 0 && hasProgram ? [START] : others
  callables.set(functions, found)
  return found
}

/** Each route of a plug-in asks for them. */
const callables = new WeakMap<Plugin['functions'], readonly string[]>()

/**
 * The export that a route calls: the one named, or the only one that can be called.
 *
 * @throws {@link FunctionUnknownError} naming what the plug-in has instead.
 */
export function chooseExport(plugin: Plugin, named: string | undefined): string {
  const callable = callableExports(plugin)
  if (named === undefined) {
    const [only, ...others] = callable
    if (only === undefined) throw new FunctionUnknownError(plugin.name, nothingToCall(plugin))
    if (others.length > 0) {
      throw new FunctionUnknownError(
        plugin.name,
        `it has several functions, name one of them: ${list(callable)}`,
      )
    }
    return only
  }

  const exported = plugin.functions.find(({ name }) => name === named)
  if (!exported) {
    const known = callable.length > 0 ? `it has ${list(callable)}` : nothingToCall(plugin)
    throw new FunctionUnknownError(
      plugin.name,
      `it has no function "${named}"${didYouMean(named, callable)} (${known})`,
    )
  }
  if (!hasCallSignature(exported.signature)) {
    throw new FunctionUnknownError(
      plugin.name,
      `"${named}" is ${render(exported.signature)}; a function that can be called takes nothing and returns nothing or one i32`,
    )
  }
  return named
}

/**
 * Why an export cannot be served.
 *
 * @returns undefined if it can.
 */
export function whyNotCallable({ name, signature }: FunctionExport): string | undefined {
  if (!hasCallSignature(signature)) return `it is ${render(signature)}`
  return TOOLCHAIN.test(name) ? 'its toolchain added it for itself' : undefined
}

function nothingToCall(plugin: Plugin): string {
  const others = plugin.functions.map(({ name, signature }) => `${name} ${render(signature)}`)
  const found = others.length > 0 ? `it exports only ${list(others)}` : 'it exports no functions at all'
  return `no function can be called: ${found}`
}

function hasCallSignature({ params, results }: Signature): boolean {
  return params.length === 0 && (results.length === 0 || (results.length === 1 && results[0] === 'i32'))
}

/**
 * What toolchains export for themselves with a signature that could be called: initialisers, C and C++ runtimes,
 * allocators and collectors, Emscripten's and Asyncify's hooks, Go's and Nim's schedulers.
 */
const TOOLCHAIN =
  /^(?:__|_initialize$|hs_(?:init|exit)|asyncify_|emscripten_|stack(?:Save|Alloc|Restore)$|malloc$|calloc$|realloc$|free$|NimMain|go_scheduler$|resume$)/

function render({ params, results }: Signature): string {
  return `(${params.join(', ')}) -> (${results.join(', ')})`
}

/** A dozen names at most: a message is read by a person. */
function list(names: readonly string[]): string {
  const shown = names.slice(0, 12).join(', ')
  return names.length > 12 ? `${shown} and ${names.length - 12} more` : shown
}
