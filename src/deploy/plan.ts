import type { Host } from '../cli/command.ts'
import { MountConflictError, OptionsError, UsageError } from '../errors/errors.ts'
import { checkGiven, locate, wholeOf } from '../options/check-given.ts'
import type { Config } from '../options/config.ts'
import { COMMAND_LINE, type GivenMap, mapOf, mergeMaps, toData } from '../options/given.ts'
import { type Merged, mergeConfig } from '../options/merge.ts'
import { type CheckedLoadOptions, type CheckedServerOptions, checkLoadOptions } from '../options/options.ts'
import { placed } from '../options/placed.ts'
import { resolveRoute } from '../options/resolved-route.ts'
import { routeConflicts } from '../options/routes-table.ts'
import { Pace } from '../platform/paced.ts'
import { chooseExport } from '../plugin/callable.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { chooseEngine } from '../route/engine-choice.ts'
import type { VersionedOptions } from '../route/open-routes.ts'
import { type LoadWatcher, openLoader } from './loader.ts'
import { type PlannedRoute, planRoutes } from './planned-routes.ts'

/** What is to be served, before anything is opened. */
export interface Plan {
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  /** All options with where they were given, those of loading too. */
  readonly given: GivenMap
  readonly options: CheckedServerOptions & CheckedLoadOptions & Pick<VersionedOptions, 'routes'>
  /** Of each route. */
  readonly plugins: readonly Plugin[]
  /** The routes of the options, in their order, as they were planned. */
  readonly planned: readonly PlannedRoute[]
  /** Plug-ins and functions whose names cannot be routes. */
  readonly leftOut: readonly string[]
  /** For people: what is not served, and why. */
  readonly warnings: readonly string[]
}

/** What somebody has to say who plans again and again. */
export interface PlanWatcher extends LoadWatcher {
  /** Changes what the configuration says. */
  readonly overlay?: Overlay | undefined
}

/** @returns The routes that are served, in the place of those that the configuration has. */
export type Overlay = (routes: readonly PlannedRoute[], merged: Merged) => Promise<readonly PlannedRoute[]>

/**
 * Reads the config file, loads the plug-ins and finds their routes.
 *
 * @param tell - Told what is wrong: with the config file, the options, one plug-in, or routes that meet. Planning goes
 * on without.
 * @returns undefined if nothing is left to be served.
 * @throws `UsageError`, `ConfigInvalidError`, `OptionsError`: nothing can be planned.
 */
export async function planServer(
  config: Config,
  host: Host,
  tell: (error: unknown) => void,
  { overlay, ...watcher }: PlanWatcher = {},
): Promise<Plan | undefined> {
  let hasFailed = false
  const failed = (error: unknown) => {
    hasFailed = true
    tell(error)
  }
  const pace = new Pace()
  const { path, given: file } = await readFile(config, host, failed, watcher)
  const isFileWrong = hasFailed
  await pace.step()
  try {
    const merged = mergeConfig(config, file)
    const loading = locate(merged.load, () => checkLoadOptions(toData(merged.load)))
    const isWrong = isFileWrong || !areRight(config, merged, failed)
    const notTold = (error: unknown) => {
      if (!(isWrong && error instanceof OptionsError)) failed(error)
    }
    if (path !== undefined) refuseEmpty(path, config, merged)
    await pace.step()
    const loader = openLoader(loading, host, watcher)
    const commands = Object.keys(host.commands)
    const limits = { onFile: watcher.onFile, maxFunctions: loading.maxFunctions }
    const found = await planRoutes(config, merged, loader, notTold, commands, limits)
    const asked = overlay ? await overlay(found.routes, merged) : found.routes
    const routes: PlannedRoute[] = []
    for (const route of asked) {
      if (canServe(route, failed)) routes.push(route)
      await pace.step()
    }
    if (routes.length === 0 && hasFailed) return undefined

    await pace.step()
    // Where the server's own options are wrong, routes are looked at without them.
    const given = wholeOf(
      isWrong ? NO_OPTIONS : merged.server,
      routes.map(({ given }) => given),
    )
    const options = checkGiven(given)
    await pace.step()
    if (!isFileWrong) refuseConflicts(options, routes, failed) // else they are told
    return {
      file: path,
      given: mergeMaps(given, merged.load),
      options: {
        ...options,
        ...loading,
        routes: options.routes.map((route, index) => ({
          ...route,
          plugin: routes[index]?.plugin ?? route.plugin,
          ...(routes[index]?.next && { next: routes[index].next }),
        })),
      },
      plugins: routes.map(({ plugin }) => plugin),
      planned: routes,
      leftOut: found.leftOut,
      warnings: found.warnings,
    }
  } catch (error) {
    if (!hasFailed) throw error
    if (!(isFileWrong && error instanceof UsageError)) tell(error) // of a file that is wrong little may be left
    return undefined
  }
}

/** @throws {@link UsageError} if neither the file nor a word names a plug-in. */
function refuseEmpty(path: string, { words }: Config, { routes = [], plugins }: Merged): void {
  if (words.length > 0 || routes.length > 0 || plugins.size > 0) return
  throw new UsageError(
    `${path} has no plug-in: give it "plugins" or "routes", or name one, such as hello.wasm`,
  )
}

const NO_OPTIONS = mapOf([], COMMAND_LINE)

/** Whether the options that a config file has are right, before anything is loaded. */
function areRight({ words }: Config, merged: Merged, failed: (error: unknown) => void): boolean {
  const routes = merged.routes ?? [...merged.plugins.values()]
  if (words.length > 0 || routes.length === 0) return true // plug-ins that words name are checked one by one
  try {
    checkGiven(wholeOf(merged.server, routes))
    return true
  } catch (error) {
    failed(error)
    return false
  }
}

/** Whether the plug-in has the function and there is an engine that has what the route asks for: told with its place. */
function canServe({ given, plugin }: PlannedRoute, failed: (error: unknown) => void): boolean {
  const whole = wholeOf(NO_OPTIONS, [given])
  const [route] = checkGiven(whole).routes
  if (!route) return false
  const problems: unknown[] = []
  try {
    locate(whole, () => chooseEngine(resolveRoute(route, plugin), plugin, ['routes', '0']))
  } catch (error) {
    problems.push(error)
  }
  try {
    chooseExport(plugin, route.function)
  } catch (error) {
    problems.push(placed(error, given, 'function', 'plugin'))
  }
  for (const problem of problems) failed(problem)
  return problems.length === 0
}

/** The file that is named; without one and without a plug-in, that of the working folder. */
async function readFile(
  { configFile, words }: Config,
  host: Host,
  failed: (error: unknown) => void,
  { onFile }: LoadWatcher,
): Promise<{ path?: string; given?: GivenMap }> {
  if (configFile === undefined && words.length > 0) return {}
  // Loaded only here: most who serve a plug-in have no such file.
  const { findConfigFile, readConfigFile } = await import('../options/config-file.ts')
  const path = configFile ?? findConfigFile('.')
  if (path === undefined) return {}
  onFile?.(path)
  return { path, given: await readConfigFile(path, host.environment, host.secrets, failed) }
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
