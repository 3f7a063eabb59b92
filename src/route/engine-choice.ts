import { availableParallelism } from 'node:os'
import { optionsError, problemAt } from '../options/options.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import { EXTISM_ENV, hostImports } from '../plugin/host-imports.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { HTTP_REQUEST } from '../runtime/imports.ts'

/** Where the instances of a route run. */
export type EngineChoice =
  | { readonly name: 'inline' }
  | {
      readonly name: 'workers'
      readonly workers: number
      /** None: its guests may run for ever. */
      readonly timeoutMs: number | undefined
      /** The reason of the choice. */
      readonly reason: string
    }
  | {
      readonly name: 'subprocess'
      /** Processes that run its calls. */
      readonly workers: number
      /** None: its guests may run for ever. */
      readonly timeoutMs: number | undefined
      /** The reason of the choice. */
      readonly reason: string
    }

/**
 * Chooses the engine of a route: the event loop, unless the route asks for threads, or for what only a thread can
 * give: a deadline, or time to wait for other servers or for the store. Processes it has if it asks for them.
 *
 * @param path - Of the route in the options, for messages: `routes`, `0`.
 * @param waitsForStore - Whether its guests have to wait for the store, if that is known.
 * @throws {@link OptionsError} if it asks for both.
 */
export function chooseEngine(
  route: ResolvedRoute,
  plugin: Plugin,
  path: readonly string[],
  waitsForStore = false,
): EngineChoice {
  const reason = whyThreads(route, plugin, waitsForStore)
  const problems = conflicts(route, plugin, reason)
  if (problems.length > 0) {
    throw optionsError(problems.map(({ option, message }) => problemAt([...path, option], message)))
  }
  const name = whyProcess(route, plugin) === undefined ? 'workers' : 'subprocess'
  if (!reason || route.engine === 'inline') return { name: 'inline' }
  const workers = route.workers === 'auto' ? availableParallelism() : route.workers
  return { name, workers: workers || 1, timeoutMs: route.deadline.ms, reason }
}

/** Why only a process can run its guests; undefined if one need not. */
function whyProcess(
  { engine }: { readonly engine?: ResolvedRoute['engine'] | undefined },
  { needsProcess }: Plugin,
): string | undefined {
  return engine === 'subprocess' ? '--engine subprocess' : needsProcess
}

function whyThreads(route: ResolvedRoute, plugin: Plugin, waitsForStore: boolean): string | undefined {
  const { engine, workers, deadline } = route
  const needed = whyProcess(route, plugin)
  if (needed !== undefined) return needed
  if (workers) return `--workers ${workers}`
  if (engine === 'workers') return '--engine workers'
  if (deadline.from === 'option') return '--timeout'
  if (deadline.from === 'manifest') return "the manifest's timeout_ms"
  if (route.outbound && importsHttp(plugin)) return 'outbound HTTP'
  return waitsForStore ? 'key-value store' : undefined
}

interface Conflict {
  readonly option: 'process' | 'engine' | 'runtime' | 'workers' | 'timeoutMs' | 'functions'
  readonly message: string
}

/** Options of the route that exclude each other. */
function conflicts(
  { engine, workers, deadline, functions, runtime, process }: ResolvedRoute,
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
    const message = 'nothing can end a guest on the event loop: leave out engine inline, or the deadline'
    if (deadline.from === 'option') problems.push({ option: 'timeoutMs', message })
    else if (deadline.from === 'manifest')
      problems.push({ option: 'engine', message: `the manifest sets timeout_ms, and ${message}` })
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
