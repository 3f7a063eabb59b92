import { availableParallelism } from 'node:os'
import { type CheckedRouteOptions, optionsError, problemAt } from '../config/options.ts'
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

/** How long a guest may run in a thread, unless told. */
const TIMEOUT_MS = 1_000

/**
 * Chooses the engine of a route: the event loop, unless the route asks for threads, or for what only a thread can
 * give: a deadline, or time to wait for other servers or for the store.
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
  const problems = reason ? conflicts(options, plugin, reason) : []
  if (plugin.needsProcess !== undefined)
    problems.push({ option: 'engine', message: `its ${plugin.needsProcess} need --engine subprocess` })
  if (problems.length > 0) {
    throw optionsError(problems.map(({ option, message }) => problemAt([...path, option], message)))
  }
  if (!reason || options.engine === 'inline') return { name: 'inline' }
  const workers = options.workers === 'auto' ? availableParallelism() : options.workers
  const timeoutMs = options.timeoutMs ?? plugin.settings?.timeoutMs ?? TIMEOUT_MS
  return { name: 'workers', workers: workers || 1, timeoutMs: timeoutMs || undefined, reason }
}

function whyThreads(
  options: CheckedRouteOptions,
  plugin: Plugin,
  waitsForStore: boolean,
): string | undefined {
  const { engine, workers, timeoutMs } = options
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
  { engine, workers, timeoutMs, functions }: CheckedRouteOptions,
  plugin: Plugin,
  reason: string,
): Conflict[] {
  const problems: Conflict[] = []
  if (engine === 'inline') {
    if (workers) problems.push({ option: 'workers', message: 'engine inline has no threads' })
    const deadline = 'nothing can end a guest on the event loop: leave out engine inline, or the deadline'
    if (timeoutMs !== undefined) problems.push({ option: 'timeoutMs', message: deadline })
    else if (plugin.settings?.timeoutMs)
      problems.push({ option: 'engine', message: `the manifest sets timeout_ms, and ${deadline}` })
  } else if (typeof functions === 'object') {
    const message = `threads (${reason}) cannot be given functions: name the module that exports them`
    problems.push({ option: 'functions', message })
  }
  return problems
}

function importsHttp(plugin: Plugin): boolean {
  return hostImports(plugin).some(({ module, name }) => module === EXTISM_ENV && name === HTTP_REQUEST)
}
