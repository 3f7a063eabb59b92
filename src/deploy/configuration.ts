import { randomUUID } from 'node:crypto'
import { OptionsError, UsageError } from '../errors/errors.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { checkGiven, locate } from '../options/check-config.ts'
import type { Config, Environment } from '../options/config.ts'
import { type ConfigMap, mapOf, type Origin, toData } from '../options/config-node.ts'
import { type Merged, mergeConfig } from '../options/merge.ts'
import {
  type CheckedLoadOptions,
  type CheckedRouteOptions,
  type CheckedServerOptions,
  checkLoadOptions,
  optionsError,
  problemAt,
} from '../options/options.ts'
import { Pace, pacedMap } from '../platform/async-work.ts'
import { isWritableByAll } from '../platform/trusted-path.ts'
import { isPlugin, type Plugin } from '../plugin/plugin.ts'
import type { SourceOptions } from '../plugin/source/source.ts'
import { type Configuration, type DesiredRoute, mapFromData } from './desired-state.ts'
import type { Version } from './edits.ts'
import { distinguish, findRoutes } from './find-routes.ts'
import { openLoader, type ReadingOptions, sourceOptions } from './loader.ts'
import { nameOf } from './mounts.ts'

/** Where a configuration comes from. It is read at the start, and again by each reload. */
export interface ConfigurationSource {
  /** Whether a person configures it, who wants to see all that is wrong at once, with its lines. */
  readonly listsProblems: boolean
  /**
   * Reads it, and loads the plug-ins that it names.
   *
   * @param failed - Called with each thing that is wrong; the rest is looked at all the same.
   * @returns undefined if nothing is left.
   * @throws what leaves nothing to look at, if that is the first that is wrong.
   */
  read(reading: ReadingOptions, failed: (error: unknown) => void): Promise<Configuration | undefined>
  /** How what comes from the network is read. */
  sourceOptions(load: CheckedLoadOptions): SourceOptions
}

/** What is around a command line. */
export interface CommandSurroundings {
  readonly environment: Environment
  /** Gets the values of variables that go into the configuration. */
  readonly secrets: Secrets
  /** By the names of commands: a first word may have been meant as one. */
  readonly commands: Readonly<Record<string, unknown>>
}

/** The configuration of a command line: flags, variables and config file. */
export function commandConfiguration(config: Config, around: CommandSurroundings): ConfigurationSource {
  const sources = (load: CheckedLoadOptions) => sourceOptions(load, around.environment)
  return {
    listsProblems: true,
    sourceOptions: sources,
    async read(reading, failed) {
      let hasFailed = false
      const report = (error: unknown) => {
        hasFailed = true
        failed(error)
      }
      const { path, given: file } = await readFile(config, around, report, reading)
      const isFileWrong = hasFailed
      try {
        return await readMerged(mergeConfig(config, file), path, isFileWrong, report)
      } catch (error) {
        if (!hasFailed) throw error
        if (!(isFileWrong && error instanceof UsageError)) failed(error) // of a file that is wrong little may be left
        return undefined
      }

      async function readMerged(
        merged: Merged,
        path: string | undefined,
        isFileWrong: boolean,
        failed: (error: unknown) => void,
      ): Promise<Configuration> {
        const pace = new Pace()
        await pace.step()
        const loading = locate(merged.load, () => checkLoadOptions(toData(merged.load)))
        const isWrong = isFileWrong || !areRight(config, merged, failed)
        const notTold = (error: unknown) => {
          if (!(isWrong && error instanceof OptionsError)) failed(error)
        }
        if (path !== undefined) refuseEmpty(path, config, merged)
        await pace.step()
        const load = openLoader(loading, sources(loading), reading)
        const limits = { onFile: reading.onFile, maxFunctions: loading.maxFunctions }
        const commands = Object.keys(around.commands)
        const found = await findRoutes(config, merged, load, notTold, commands, limits)
        const openFile = `every user may write to ${path}, and so have any code run here: chmod o-w ${path}`
        const left = `functions and files whose names cannot be routes were left out: ${found.leftOut.join(', ')}`
        return {
          file: path,
          server: merged.server,
          load: merged.load,
          defaults: { route: merged.route, plugins: merged.plugins },
          routes: found.routes,
          warnings: [
            ...(path !== undefined && isWritableByAll(path) ? [openFile] : []),
            ...(found.leftOut.length > 0 ? [left] : []),
            ...found.warnings,
          ],
          ...(isWrong && { problem: isFileWrong ? 'file' : 'options' }),
        }
      }
    },
  }
}

/** @throws {@link UsageError} if neither the file nor a word names a plug-in. */
function refuseEmpty(path: string, { words }: Config, { routes = [], plugins }: Merged): void {
  if (words.length > 0 || routes.length > 0 || plugins.size > 0) return
  throw new UsageError(
    `${path} has no plug-in: give it "plugins" or "routes", or name one, such as hello.wasm`,
  )
}

/** Whether the options that a config file has are right, before anything is loaded. */
function areRight({ words }: Config, merged: Merged, failed: (error: unknown) => void): boolean {
  const routes = merged.routes ?? [...merged.plugins.values()]
  if (words.length > 0 || routes.length === 0) return true // plug-ins that words name are checked one by one
  try {
    checkGiven(merged.server, routes)
    return true
  } catch (error) {
    failed(error)
    return false
  }
}

/** The file that is named; without one and without a plug-in, that of the working folder. */
async function readFile(
  { configFile, words }: Config,
  { environment, secrets }: CommandSurroundings,
  failed: (error: unknown) => void,
  { onFile, isServing }: ReadingOptions,
): Promise<{ path?: string; given?: ConfigMap }> {
  if (configFile === undefined && words.length > 0) return {}
  // Loaded only here: most who serve a plug-in have no such file.
  const { findConfigFile, readConfigFile } = await import('../options/config-file.ts')
  const path = configFile ?? findConfigFile('.')
  if (path === undefined) return {}
  onFile?.(path)
  return { path, given: await readConfigFile(path, environment, secrets, failed, isServing) }
}

/** Where the options of a program come from, in messages. */
const PROGRAM: Origin = { kind: 'flag', name: 'createServer' }

/**
 * The configuration of a program, in options that were checked. Nothing is downloaded with credentials, nor kept.
 *
 * @throws {@link OptionsError} for what cannot be kept where plug-ins have versions.
 */
export function programConfiguration(options: CheckedServerOptions): ConfigurationSource {
  const { routes, ...server } = options
  if (options.admin !== undefined || options.state !== undefined) refuseLoaded(routes)
  return {
    listsProblems: false,
    sourceOptions: () => ({}),
    async read(reading) {
      const load = openLoader(checkLoadOptions({}), {}, reading)
      const found = await pacedMap(routes, async (route): Promise<DesiredRoute> => {
        const version = versionOfLoaded(route, reading) ?? (await load(route)).version
        const name = nameOf(version.name)
        return {
          given: configurationData(route, version),
          name,
          from: routeLabel(route),
          version,
          checked: route,
        }
      })
      return {
        file: undefined,
        server: mapFromData(withoutCode(server), PROGRAM),
        load: mapOf([], PROGRAM),
        defaults: { route: mapOf([], PROGRAM), plugins: new Map() },
        routes: distinguish(found),
        warnings: [],
        checked: options,
      }
    },
  }
}

function refuseLoaded(routes: readonly CheckedRouteOptions[]): void {
  const message =
    'was loaded before, and has no bytes that admin or state could keep: give its path, URL or bytes'
  const found = routes.flatMap(({ plugin }, index) =>
    typeof plugin === 'object' && isPlugin(plugin)
      ? [problemAt(['routes', String(index), 'plugin'], message)]
      : [],
  )
  if (found.length > 0) throw optionsError(found)
}

/** A plug-in that the program has loaded is a version without modules: only this process has it. */
function versionOfLoaded(route: CheckedRouteOptions, { plugins }: ReadingOptions): Version | undefined {
  const { plugin } = route
  if (typeof plugin !== 'object' || !isPlugin(plugin)) return undefined
  const digest = routeIds.get(plugin) ?? randomUUID()
  routeIds.set(plugin, digest)
  const { name, settings } = plugin
  const version: Version = {
    digest,
    name,
    from: 'file',
    addedAt: new Date().toISOString(),
    modules: [],
    settings,
  }
  plugins.set(version, route, plugin)
  return version
}

const routeIds = new WeakMap<Plugin, string>()

/** What of a route's options is data. */
function configurationData(
  { plugin, contract, ...route }: CheckedRouteOptions,
  { digest }: Version,
): ConfigMap {
  const data = {
    ...withoutCode(route),
    plugin: typeof plugin === 'string' ? plugin : plugin instanceof URL ? plugin.href : digest,
    contract: typeof contract === 'string' ? contract : contract.name,
  }
  return mapFromData(data, PROGRAM)
}

function withoutCode(options: object): object {
  return Object.fromEntries(
    Object.entries(options).filter(
      ([name, value]) => typeof value !== 'function' && !(name === 'functions' && typeof value === 'object'),
    ),
  )
}

function routeLabel({ method = 'POST', host = '', url }: CheckedRouteOptions): string {
  return `${[method].flat().join(',')} ${host}${url}`
}
