import { checkGiven, locate, wholeOf } from '../config/check-given.ts'
import type { Config } from '../config/config.ts'
import { type GivenMap, mergeMaps, toData } from '../config/given.ts'
import { mergeConfig } from '../config/merge.ts'
import { type CheckedLoadOptions, type CheckedServerOptions, checkLoadOptions } from '../config/options.ts'
import { MountConflictError } from '../errors.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { chooseEngine } from '../route/engine-choice.ts'
import { routeConflicts } from '../route/routes-table.ts'
import type { Host } from './command.ts'
import { openLoader } from './loader.ts'
import { type PlannedRoute, planRoutes } from './planned-routes.ts'

/** What is to be served, before anything is opened. */
export interface Plan {
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  /** All options with where they were given, those of loading too. */
  readonly given: GivenMap
  readonly options: CheckedServerOptions & CheckedLoadOptions
  /** Of each route. */
  readonly plugins: readonly Plugin[]
  /** Plug-ins and functions whose names cannot be routes. */
  readonly leftOut: readonly string[]
}

/**
 * Reads the config file, loads the plug-ins and finds their routes.
 *
 * @param failed - Told what is wrong with one plug-in, or of routes that meet; when it returns, planning goes on
 * without. Default: it throws.
 * @throws `UsageError`, `ConfigInvalidError`, `OptionsError`: nothing can be planned.
 */
export async function planServer(
  config: Config,
  host: Host,
  failed: (error: unknown) => void = raise,
): Promise<Plan> {
  const { path, given: file } = await readFile(config, host)
  const merged = mergeConfig(config, file)
  const loading = locate(merged.load, () => checkLoadOptions(toData(merged.load)))
  const { routes, leftOut } = await planRoutes(config, merged, openLoader(loading, host), failed)
  const given = wholeOf(
    merged.server,
    routes.map(({ given }) => given),
  )
  const options = checkGiven(given)
  refuseConflicts(options, routes, failed)
  refuseEngines(options, routes, given, failed)
  return {
    file: path,
    given: mergeMaps(given, merged.load),
    options: {
      ...options,
      ...loading,
      routes: options.routes.map((route, index) => ({
        ...route,
        plugin: routes[index]?.plugin ?? route.plugin,
      })),
    },
    plugins: routes.map(({ plugin }) => plugin),
    leftOut,
  }
}

function raise(error: unknown): never {
  throw error
}

/** The file that is named; without one and without a plug-in, that of the working folder. */
async function readFile(
  { configFile, words }: Config,
  host: Host,
): Promise<{ path?: string; given?: GivenMap }> {
  if (configFile === undefined && words.length > 0) return {}
  // Loaded only here: most who serve a plug-in have no such file.
  const { findConfigFile, readConfigFile } = await import('../config/config-file.ts')
  const path = configFile ?? findConfigFile('.')
  return path === undefined ? {} : { path, given: await readConfigFile(path, host.environment, host.secrets) }
}

function refuseConflicts(
  { routes }: CheckedServerOptions,
  planned: readonly PlannedRoute[],
  failed: (error: unknown) => void,
): void {
  const lines = routeConflicts(routes).map(
    ({ first, later }) => `  ${routes[later]?.url}: ${planned[first]?.from} and ${planned[later]?.from}`,
  )
  if (lines.length > 0) failed(new MountConflictError(lines.join('\n')))
}

/** Routes that ask for what no engine has: told here, where it is known which flag or line asks for it. */
function refuseEngines(
  { routes }: CheckedServerOptions,
  planned: readonly PlannedRoute[],
  given: GivenMap,
  failed: (error: unknown) => void,
): void {
  for (const [index, { plugin }] of planned.entries()) {
    const route = routes[index]
    if (!route) continue
    try {
      locate(given, () => chooseEngine(route, plugin, ['routes', String(index)]))
    } catch (error) {
      failed(error)
    }
  }
}
