import type { FastifyBaseLogger } from 'fastify'
import { CheckFailedError } from '../errors/errors.ts'
import { openLog } from '../observe/log/log.ts'
import { withLocation, withRoutes } from '../options/check-config.ts'
import type { Config } from '../options/config.ts'
import { type ConfigMap, mergeMaps } from '../options/config-node.ts'
import { optionsByError } from '../options/facts.ts'
import { MAX_EAGER_PLUGINS } from '../options/resolved-route.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { createApp, lifeOf } from '../server/app.ts'
import { readTls } from '../server/tls.ts'
import { type CommandContext, type ConfigurationSource, commandConfiguration } from './configuration.ts'
import { type Configuration, type DesiredState, refuseEdit } from './desired-state.ts'
import { NO_EDITS } from './edits.ts'
import { PluginTable, type ReadingOptions } from './loader.ts'
import { serverNodeOf } from './new-routes.ts'
import { combineErrors, type Resolved, type Resolving, resolve } from './resolve.ts'

/** The routes to serve, before anything is opened. */
export interface Plan extends Resolved {
  readonly desired: DesiredState
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  /** All options with their origins, including those of loading. */
  readonly node: ConfigMap
}

/** How a configuration is planned with edits. */
interface Planning {
  readonly reading: ReadingOptions
  /** Adds the existing edits and the way to resolve them. */
  desire(configuration: Configuration): Promise<{
    readonly desired: DesiredState
    readonly resolving: Omit<Resolving, 'source' | 'failed'>
  }>
}

/**
 * Reads and resolves a configuration.
 *
 * @param failed - Called with each problem; checking continues after it.
 * @returns undefined if no route is left.
 * @throws the first problem, if nothing is left to check.
 */
export async function planServer(
  source: ConfigurationSource,
  failed: (error: unknown) => void,
  { reading, desire }: Planning = withoutEdits(),
): Promise<Plan | undefined> {
  let hasFailed = false
  const report = (error: unknown) => {
    hasFailed = true
    failed(error)
  }
  const configuration = await source.read(reading, report)
  if (!configuration || (hasFailed && configuration.routes.length === 0)) return undefined
  try {
    const { desired, resolving } = await desire(configuration)
    const resolved = await resolve(desired, { ...resolving, source, failed: report })
    if (hasFailed && resolved.routes.length === 0) return undefined
    return { ...resolved, desired, file: configuration.file, node: optionsOfNode(desired, resolved) }
  } catch (error) {
    if (!hasFailed) throw error
    failed(error)
    return undefined
  }
}

function withoutEdits(): Planning {
  const plugins = new PluginTable()
  const module = () => Promise.reject(new Error('the bytes of a loaded module are missing'))
  return {
    reading: { plugins },
    desire: async (configuration) => ({
      desired: { revision: 1, configuration, edits: NO_EDITS, warnings: [] },
      resolving: { plugins, module, refuse: refuseEdit },
    }),
  }
}

/** {@link planAll} for a command line. */
export async function planCommand(config: Config, context: CommandContext): Promise<Plan> {
  return planAll(commandConfiguration(config, context))
}

/**
 * Plans, and reports all problems instead of only the first.
 *
 * @throws the failure, or {@link CheckFailedError} with the messages of several.
 */
export async function planAll(source: ConfigurationSource, planning?: Planning): Promise<Plan> {
  const failures: unknown[] = []
  const failed = (error: unknown) => failures.push(error)
  const plan = await planServer(source, failed, planning)
  if (plan && failures.length === 0) return plan
  if (plan) await openEach(plan, failed)
  throw combineErrors(failures)
}

/**
 * Opens each route of a plan in a separate app, so that one failure does not hide another. Each is first started in a
 * thread, which can be terminated if it does not return. If many plug-ins are loaded by their first calls, these are not
 * started, and opened together; separately only if that fails.
 *
 * @param failed - Called with the reason that a route cannot be served and its line in the config file.
 */
export async function openEach(
  { options, routes, node }: Pick<Plan, 'options' | 'routes' | 'node'>,
  failed: (error: unknown) => void,
): Promise<readonly ServedRoute[]> {
  const opened = new Map<number, ServedRoute>()
  const open = async (some: readonly number[], trial: boolean): Promise<void> => {
    const [first = 0] = some
    try {
      const own = some.flatMap((index) => options.routes[index] ?? [])
      const { app, routes } = await createApp({ ...options, routes: own, trial }, openLog('silent'))
      for (const [at, route] of routes.entries()) opened.set(some[at] ?? first, route)
      await app.close()
    } catch (error) {
      if (some.length > 1) {
        await open(some.slice(0, some.length / 2), trial)
        await open(some.slice(some.length / 2), trial)
        return
      }
      failed(withOption(error, node))
    }
  }
  const lazy = routes.flatMap(({ plugin }, index) => (plugin.compile ? [index] : []))
  const untried = new Set(lazy.length > MAX_EAGER_PLUGINS ? lazy : [])
  for (const index of routes.keys()) if (!untried.has(index)) await open([index], true)
  if (untried.size > 0) await open([...untried], false)
  return routes.flatMap((_, index) => opened.get(index) ?? [])
}

/**
 * Opens all routes of a plan together, and closes them: some problems appear only then.
 *
 * @param log - Receives warnings about what does not prevent a start. Default: nobody looks for it.
 */
export async function openTogether(
  { options }: Pick<Plan, 'options'>,
  log?: FastifyBaseLogger,
): Promise<void> {
  if (options.tls) readTls(options.tls)
  const { app } = await createApp(options, log ?? openLog('silent'))
  if (log) await lifeOf(app)?.review()
  await app.close()
}

/** The reason that a server does not start: each route is checked alone. If none fails, it is the start's own error. */
export async function explainPlanFailure(
  plan: Pick<Plan, 'options' | 'routes' | 'node'>,
  error: unknown,
): Promise<unknown> {
  const { node, options } = plan
  if (options.routes.length === 1) return withOption(error, node)
  const failures: unknown[] = []
  await openEach(plan, (failure) => failures.push(failure))
  return failures.length > 0 ? combineErrors(failures) : withOption(error, node)
}

/** Adds the config line of a failure of the server. Those of routes have theirs, and a missing package has none. */
function withOption(error: unknown, server: ConfigMap): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const option = SERVER_OPTIONS.get(code)
  return option === undefined ? error : withLocation(error, server, option)
}

const SERVER_OPTIONS = optionsByError('server')

/** All options of a command line with their origins, including those of loading. */
function optionsOfNode({ configuration }: DesiredState, { routes }: Resolved): ConfigMap {
  const nodes = routes.map(({ target }) => target.configured)
  return mergeMaps(withRoutes(serverNodeOf(configuration), nodes), configuration.load)
}
