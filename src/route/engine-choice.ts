import { availableParallelism } from 'node:os'
import { type CheckedRouteOptions, optionsError, problemAt } from '../options/options.ts'
import { hostImports } from '../plugin/host-imports.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { EXTISM_ENV, HTTP_REQUEST } from '../runtime/imports.ts'
import { outboundOptions } from './settings.ts'

/** Where the instances of a route run. */
export type EngineChoice =
  | { readonly name: 'inline' }
  | {
      readonly name: 'workers'
      readonly workers: number
      /** None: its guests may run for ever. */
      readonly timeoutMs: number | undefined
      /** What it was chosen for. */
      readonly reason: string
    }
  | {
      readonly name: 'subprocess'
      /** Processes that run its calls. */
      readonly workers: number
      /** None: its guests may run for ever. */
      readonly timeoutMs: number | undefined
      /** What it was chosen for. */
      readonly reason: string
    }

/** How long a guest may run in a thread, unless told. */
const TIMEOUT_MS = 1_000

/**
 * Chooses the engine of a route: the event loop, unless the route asks for threads, or for what only a thread can
 * give: a deadline, or time to wait for other servers or for the store. Processes it has if it asks for them.
 *
 * @param path - Of the route in the options, for messages: `routes`, `0`.
 * @param waitsForStore - Whether its guests have to wait for the store, if that is known.
 * @throws {@link OptionsError} if it asks for both.
 */
export function chooseEngine(
  options: CheckedRouteOptions,
  plugin: Plugin,
  path: readonly string[],
  waitsForStore = false,
): EngineChoice {
  const reason = whyThreads(options, plugin, waitsForStore)
  const problems = conflicts(options, plugin, reason)
  if (problems.length > 0) {
    throw optionsError(problems.map(({ option, message }) => problemAt([...path, option], message)))
  }
  const name = whyProcess(options, plugin) === undefined ? 'workers' : 'subprocess'
  if (!reason || options.engine === 'inline') return { name: 'inline' }
  const workers = options.workers === 'auto' ? availableParallelism() : options.workers
  const timeoutMs = options.timeoutMs ?? plugin.settings?.timeoutMs ?? TIMEOUT_MS
  return { name, workers: workers || 1, timeoutMs: timeoutMs || undefined, reason }
}

/** Why only a process can run its guests; undefined if one need not. */
function whyProcess(
  { engine }: { readonly engine?: CheckedRouteOptions['engine'] | undefined },
  { needsProcess }: Plugin,
): string | undefined {
  return engine === 'subprocess' ? '--engine subprocess' : needsProcess
}

function whyThreads(
  options: CheckedRouteOptions,
  plugin: Plugin,
  waitsForStore: boolean,
): string | undefined {
  const { engine, workers, timeoutMs } = options
  const needed = whyProcess(options, plugin)
  if (needed !== undefined) return needed
  if (workers) return `--workers ${workers}`
  if (engine === 'workers') return '--engine workers'
  if (timeoutMs !== undefined) return '--timeout'
  if (plugin.settings?.timeoutMs) return "the manifest's timeout_ms"
  if (outboundOptions(options, plugin) && importsHttp(plugin)) return 'outbound HTTP'
  return waitsForStore ? 'key-value store' : undefined
}

interface Conflict {
  readonly option: keyof CheckedRouteOptions
  readonly message: string
}

/** What the route asks for and cannot have together. */
function conflicts(
  { engine, workers, timeoutMs, functions, runtime, process }: CheckedRouteOptions,
  plugin: Plugin,
  reason: string | undefined,
): Conflict[] {
  const problems: Conflict[] = []
  const isProcess = whyProcess({ engine }, plugin) !== undefined
  if (process !== undefined && !isProcess)
    problems.push({ option: 'process', message: 'only engine subprocess has processes' })
  if (!reason) return problems
  if (isProcess && engine !== undefined && engine !== 'subprocess')
    problems.push({ option: 'engine', message: `its ${plugin.needsProcess} need engine subprocess` })
  if (isProcess && runtime === 'sdk')
    problems.push({ option: 'runtime', message: `processes (${reason}) have the kernel, not the sdk` })
  if (engine === 'inline') {
    if (workers) problems.push({ option: 'workers', message: 'engine inline has no threads' })
    const deadline = 'nothing can end a guest on the event loop: leave out engine inline, or the deadline'
    if (timeoutMs !== undefined) problems.push({ option: 'timeoutMs', message: deadline })
    else if (plugin.settings?.timeoutMs)
      problems.push({ option: 'engine', message: `the manifest sets timeout_ms, and ${deadline}` })
  } else if (typeof functions === 'object') {
    const what = isProcess ? 'processes' : 'threads'
    const message = `${what} (${reason}) cannot be given functions: name the module that exports them`
    problems.push({ option: 'functions', message })
  }
  return problems
}

function importsHttp(plugin: Plugin): boolean {
  return hostImports(plugin).some(({ module, name }) => module === EXTISM_ENV && name === HTTP_REQUEST)
}
