import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isAsyncFunction } from 'node:util/types'
import {
  GuestError,
  GuestTrapError,
  HostFunctionInvalidError,
  HostUnavailableError,
  VariablesFullError,
} from '../errors/errors.ts'
import { isHostNamespace } from '../plugin/host-imports.ts'
import type { CallContext } from './call-context.ts'
import { VarsFull } from './vars.ts'

/**
 * A function of the user that guests can import. An `i64` is a BigInt, all other numbers are numbers; results are
 * converted as WebAssembly does. A thrown value ends the call, and the instance is replaced. If the function has called
 * `setError` before it throws, the call is answered with that error.
 *
 * It must be declared `async` if it returns a promise: the guest then waits, if the runtime supports it.
 */
export type HostFunction = (context: CallContext, ...args: never[]) => unknown

/** Host functions by namespace and name, as for `@extism/extism`. */
export interface HostFunctions {
  readonly [namespace: string]: { readonly [name: string]: HostFunction }
}

/** A host function that a plug-in imports. */
export interface NamedHostFunction {
  readonly namespace: string
  readonly name: string
  /** Both names, for messages. */
  readonly label: string
  /** Whether it returns a promise, for which the guest has to wait; `sometimes`: see {@link waitsSometimes}. */
  readonly isAsync: boolean | 'sometimes'
  /** Calls it; async if it is. @throws {@link HostFunctionFailure} */
  readonly call: (context: CallContext, ...args: unknown[]) => unknown
}

/** The error of a call whose host function threw. `cause` is the thrown value. */
class HostFunctionFailure extends Error {
  override readonly name = 'HostFunctionFailure'

  constructor(label: string, thrown: unknown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown)
    super(`host function ${label}: ${reason}`, { cause: thrown })
  }
}

/** Thrown by a host function when a service that it needs is unavailable: not a mistake of the guest. */
export class ServiceUnavailable extends Error {
  override readonly name = 'ServiceUnavailable'
}

/**
 * The error of an interrupted call.
 *
 * @param hostError - The error of the call that a host function has set. It takes precedence over a thrown value. The
 * error then has a `cause`, because its instance cannot continue.
 */
export function interruptionError(thrown: unknown, exportName: string, hostError?: string): Error {
  if (hostError !== undefined && thrown instanceof HostFunctionFailure)
    return new GuestError(hostError, { cause: describeFailure(thrown) })
  const reason = thrown instanceof HostFunctionFailure ? thrown.cause : thrown
  if (reason instanceof VarsFull)
    return new VariablesFullError(exportName, reason.limit, { cause: describeFailure(thrown) })
  const isTrouble = thrown instanceof HostFunctionFailure && thrown.cause instanceof ServiceUnavailable
  if (isTrouble) return new HostUnavailableError(exportName, { cause: describeTrap(thrown) })
  return new GuestTrapError(exportName, { cause: describeFailure(thrown) })
}

/** The cause of an interrupted call, for the log. An error of a host function includes its stack: it is the operator's own code. */
function describeFailure(thrown: unknown): Trap & { readonly hostStack?: string | undefined } {
  const trap = describeTrap(thrown)
  if (!(thrown instanceof HostFunctionFailure && thrown.cause instanceof Error)) return trap
  return { ...trap, hostStack: thrown.cause.stack }
}

/**
 * Checks the names of host functions.
 *
 * @param isDefined - Whether a module of the plug-in exports this name: then two definitions would exist.
 * @throws {@link HostFunctionInvalidError} listing all problems.
 */
export function checkHostFunctions(
  functions: HostFunctions,
  isDefined: (namespace: string, name: string) => boolean,
): void {
  const problems = Object.entries(functions).flatMap(([namespace, members]) => {
    if (isHostNamespace(namespace)) return [`  ${namespace}: only wasm-serve itself provides these`]
    if (typeof members !== 'object' || members === null)
      return [`  ${namespace}: it is not an object of functions`]
    return Object.entries(members).flatMap(([name, member]: [string, unknown]) => {
      if (typeof member !== 'function') return [`  ${namespace} ${name}: it is not a function`]
      if (!isDefined(namespace, name)) return []
      return [`  ${namespace} ${name}: the module "${namespace}" of the plug-in defines it too`]
    })
  })
  if (problems.length > 0) throw new HostFunctionInvalidError(problems.join('\n'))
}

/** @returns undefined if there is none. Inherited members do not count. */
export function findHostFunction(
  functions: HostFunctions,
  namespace: string,
  name: string,
): NamedHostFunction | undefined {
  const members = Object.hasOwn(functions, namespace) ? functions[namespace] : undefined
  const found = members && Object.hasOwn(members, name) ? members[name] : undefined
  if (!found) return undefined
  const label = `"${namespace}" "${name}"`
  const run = found as (context: CallContext, ...args: unknown[]) => unknown
  if (sometimesAsync.has(found))
    return { namespace, name, label, isAsync: 'sometimes', call: callSometimesAsync(label, run) }
  const isAsync = isAsyncHostFunction(run)
  return { namespace, name, label, isAsync, call: isAsync ? callAsync(label, run) : callSync(label, run) }
}

/** Marks a function of wasm-serve that returns a promise only if it has to wait. Otherwise the guest continues at once. */
export function waitsSometimes(run: HostFunction): HostFunction {
  sometimesAsync.add(run)
  return run
}

const sometimesAsync = new WeakSet<HostFunction>()

/** Node does not report bound async functions as async, but they have the same prototype. */
function isAsyncHostFunction(run: unknown): boolean {
  return isAsyncFunction(run) || Object.getPrototypeOf(run) === AsyncFunction.prototype
}

const AsyncFunction = (async () => undefined).constructor

function callSync(label: string, run: NamedHostFunction['call']): NamedHostFunction['call'] {
  return (context, ...args) => {
    let returned: unknown
    try {
      returned = run(context, ...args)
    } catch (thrown) {
      throw new HostFunctionFailure(label, thrown)
    }
    if (returned instanceof Promise) {
      returned.catch(() => undefined) // the call fails in any case
      throw new HostFunctionFailure(label, 'it returned a promise: declare it as an async function')
    }
    return returned
  }
}

function callAsync(label: string, run: NamedHostFunction['call']): NamedHostFunction['call'] {
  return async (context, ...args) => {
    try {
      return await run(context, ...args)
    } catch (thrown) {
      throw new HostFunctionFailure(label, thrown)
    }
  }
}

function callSometimesAsync(label: string, run: NamedHostFunction['call']): NamedHostFunction['call'] {
  const fail = (thrown: unknown) => {
    throw new HostFunctionFailure(label, thrown)
  }
  return (context, ...args) => {
    try {
      const returned = run(context, ...args)
      return returned instanceof Promise ? returned.catch(fail) : returned
    } catch (thrown) {
      return fail(thrown)
    }
  }
}

/** Maximum frames of a guest's stack that a log line names. */
const MAX_FRAMES = 10

/** A line is as long as the guest's names are. Of a longer line, only the function's number is read. */
const MAX_LINE = 1_000

const MAX_LINE_END = 64

const LINE_END = /wasm-function\[(\d+)\]:0x[0-9a-f]+\)?$/

/** The trap of a guest: V8's reason, and the guest's stack. */
interface Trap {
  /** The engine's reason, such as `unreachable` or `memory access out of bounds`. */
  readonly reason: string
  /** Names of the guest's functions, innermost first, from the name section; `#12` where there is no name. */
  readonly guestStack: readonly string[]
}

/** Converts a thrown value to a trap. Frames of the host are omitted. */
export function describeTrap(thrown: unknown): Trap {
  if (!(thrown instanceof Error)) return { reason: String(thrown), guestStack: [] }
  const frames = (thrown.stack ?? '').split('\n').map(guestFunction)
  return {
    reason: thrown.message,
    guestStack: frames.filter((name) => name !== undefined).slice(0, MAX_FRAMES),
  }
}

/**
 * V8 writes `at module.name (wasm://wasm/module-1f2e:wasm-function[5]:0x67)`. The module's name is left out where the
 * name section has none, the function's likewise.
 */
function guestFunction(line: string): string | undefined {
  if (line.length > MAX_LINE) {
    const index = LINE_END.exec(line.slice(-MAX_LINE_END))?.[1]
    return index && `#${index}`
  }
  const frame = /^\s+at (?:(.*) \()?wasm:\/\/wasm\/(?:(.*)-)?[0-9a-f]+:wasm-function\[(\d+)\]/.exec(line)
  if (!frame) return undefined
  const [, name, module, index] = frame
  const unqualified = module && name?.startsWith(`${module}.`) ? name.slice(module.length + 1) : name
  return unqualified && unqualified !== module ? unqualified : `#${index}`
}

/**
 * Host functions as a route names them: the object itself, or the path of a module that exports one, as `default` or
 * as `functions`.
 *
 * @throws {@link HostFunctionInvalidError} if the module cannot be loaded or exports none.
 */
export async function loadFunctions(
  functions: string | HostFunctions | undefined,
): Promise<HostFunctions | undefined> {
  if (typeof functions !== 'string') return functions
  const exported = await importModule(functions)
  const found = exported.default ?? exported.functions
  if (typeof found === 'object' && found !== null) return found as HostFunctions
  throw new HostFunctionInvalidError(
    `  ${functions}: it exports no object { namespace: { name: function } } as default or as "functions"`,
  )
}

async function importModule(path: string): Promise<Record<string, unknown>> {
  try {
    return await import(pathToFileURL(resolve(path)).href)
  } catch (error) {
    if (!existsSync(path))
      throw new HostFunctionInvalidError(`  ${path}: there is no such file`, { cause: error })
    throw new HostFunctionInvalidError(
      `  ${path}: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    )
  }
}
