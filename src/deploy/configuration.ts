import { randomUUID } from 'node:crypto'
import { OptionsError, UsageError } from '../errors/errors.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import { atLocation, checkNode } from '../options/check-config.ts'
import { type Config, type Environment, refuseUnknownVariables } from '../options/config.ts'
import { type ConfigMap, mapOf, type Origin, toData } from '../options/config-node.ts'
import { type Merged, mergeConfig } from '../options/merge.ts'
import {
  type CheckedLoadOptions,
  type CheckedRouteOptions,
  type CheckedServerOptions,
  checkLoadOptions,
  optionsError,
} from '../options/options.ts'
import { problemAt } from '../options/schema.ts'
import { routeLabel } from '../options/served-route.ts'
import { EventLoopYielder, mapWithYields } from '../platform/event-loop.ts'
import { listed } from '../platform/text.ts'
import { isWritableByAll } from '../platform/trusted-path.ts'
import type { PullSettings } from '../plugin/oci/pull.ts'
import { isPlugin, type Plugin } from '../plugin/plugin.ts'
import type { SourceOptions } from '../plugin/source/source.ts'
import { type Configuration, type DesiredRoute, mapFromData } from './desired-state.ts'
import type { Version } from './edits.ts'
import { findRoutes } from './find-routes.ts'
import { type LoadedVersion, openLoader, type ReadingOptions, sourceOptions } from './loader.ts'

/** The source of a configuration. It is read at the start and by each reload. */
export interface ConfigurationSource {
  /** Whether the source is files and flags: then all problems are reported, with their lines. */
  readonly listsProblems: boolean
  /**
   * Reads the configuration and loads its plug-ins.
   *
   * @param failed - Called with each problem; checking continues after it.
   * @returns undefined if nothing is left.
   * @throws the first problem, if nothing is left to check.
   */
  read(reading: ReadingOptions, failed: (error: unknown) => void): Promise<Configuration | undefined>
  /** How remote sources are read. */
  sourceOptions(load: CheckedLoadOptions): SourceOptions
}

/** The context of a command line. */
export interface CommandContext {
  readonly environment: Environment
  /** Receives the values of variables that are substituted into the configuration. */
  readonly secrets: Secrets
  /** The names of commands, to suggest one for a misspelled first argument. */
  readonly commands: Readonly<Record<string, unknown>>
  /** Receives the progress of pulls. */
  readonly onTransfer?: PullSettings['onTransfer']
}

/** The configuration of a command line: flags, variables and config file. */
export function commandConfiguration(config: Config, context: CommandContext): ConfigurationSource {
  const sources = (load: CheckedLoadOptions) => sourceOptions(load, context.environment, context.onTransfer)
  return {
    listsProblems: true,
    sourceOptions: sources,
    async read(reading, failed) {
      let hasFailed = false
      const report = (error: unknown) => {
        hasFailed = true
        failed(error)
      }
      const { path, node: file } = await readFile(config, context, report, reading)
      const isFileWrong = hasFailed
      try {
        return await readMerged(mergeConfig(config, file), path, isFileWrong, report)
      } catch (error) {
        if (!hasFailed) throw error
        if (!(isFileWrong && error instanceof UsageError)) failed(error) // after a problem in the file, this may be a consequence
        return undefined
      }

      async function readMerged(
        merged: Merged,
        path: string | undefined,
        isFileWrong: boolean,
        failed: (error: unknown) => void,
      ): Promise<Configuration> {
        const pace = new EventLoopYielder()
        await pace.step()
        const loading = atLocation(merged.load, () => checkLoadOptions(toData(merged.load)))
        const isWrong = isFileWrong || !areRight(config, merged, failed)
        const notTold = (error: unknown) => {
          if (!(isWrong && error instanceof OptionsError)) failed(error)
        }
        if (path !== undefined) refuseEmpty(path, config, merged)
        await pace.step()
        reading.plugins.compiles = reading.compiles?.(merged.server) ?? reading.plugins.compiles
        const load = openLoader(loading, sources(loading), reading)
        const limits = { onFile: reading.onFile, maxFunctions: loading.maxFunctions }
        const commands = Object.keys(context.commands)
        const found = await findRoutes(config, merged, load, notTold, commands, limits)
        const openFile = `every user can write to ${path}, and so run any code here: chmod o-w ${path}`
        const left = `skipped functions and files whose names cannot be routes: ${listed(found.leftOut)}`
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

/** The options of a command line, without reading plug-ins. */
export interface OwnOptions {
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  /** Options of the server without its routes, with their origins. */
  readonly server: ConfigMap
  /** The options for loading plug-ins. */
  readonly load: ConfigMap
}

/** Reads the options of a command line, and no plug-in. @throws the first problem. */
export async function readOwnOptions(
  config: Config,
  context: CommandContext,
  isServing = false,
): Promise<OwnOptions> {
  const raise = (error: unknown): never => {
    throw error
  }
  const { path, node } = await readFile(config, context, raise, { isServing })
  const { server, load } = mergeConfig(config, node)
  return { file: path, server, load }
}

/** @throws {@link UsageError} if neither the file nor an argument names a plug-in. */
function refuseEmpty(path: string, { words }: Config, { routes = [], plugins }: Merged): void {
  if (words.length > 0 || routes.length > 0 || plugins.size > 0) return
  throw new UsageError(
    `${path} has no plug-in: add "plugins" or "routes", or name a plug-in, such as hello.wasm`,
  )
}

/** Checks the options of a config file before anything is loaded. */
function areRight({ words }: Config, merged: Merged, failed: (error: unknown) => void): boolean {
  const routes = merged.routes ?? [...merged.plugins.values()]
  if (words.length > 0 || routes.length === 0) return true // plug-ins among the arguments are checked one by one
  try {
    checkNode(merged.server, routes)
    return true
  } catch (error) {
    failed(error)
    return false
  }
}

/** The named config file; without one and without a plug-in, that of the working folder. */
async function readFile(
  { configFile, words }: Config,
  { environment, secrets }: CommandContext,
  failed: (error: unknown) => void,
  { onFile, isServing }: Pick<ReadingOptions, 'onFile' | 'isServing'>,
): Promise<{ path?: string; node?: ConfigMap }> {
  if (configFile === undefined && words.length > 0) {
    refuseUnknownVariables(environment)
    return {}
  }
  // Loaded on demand: with a plug-in on the command line there is often no config file.
  const { findConfigFile, readConfigFile } = await import('../options/config-file.ts')
  const path = configFile ?? findConfigFile('.', onFile)
  if (path === undefined) {
    refuseUnknownVariables(environment)
    return {}
  }
  onFile?.(path)
  return { path, node: await readConfigFile(path, environment, secrets, failed, isServing) }
}

/** The origin of a program's options, for messages. */
const PROGRAM: Origin = { kind: 'flag', name: 'createServer' }

/**
 * The configuration of a program, with validated options. Downloads use no credentials and no cache.
 *
 * @throws {@link OptionsError} for plug-ins that cannot be stored as versions.
 */
export function programConfiguration(options: CheckedServerOptions): ConfigurationSource {
  const { routes, ...server } = options
  if (options.admin !== undefined || options.state !== undefined) refuseLoaded(routes)
  return {
    listsProblems: false,
    sourceOptions: () => ({}),
    async read(reading) {
      const loader = openLoader(checkLoadOptions({}), {}, reading)
      await loader.expect(routes)
      const found = await mapWithYields(routes, async (route): Promise<DesiredRoute> => {
        const loaded = loadedBefore(route, reading) ?? (await loader.load(route))
        const { version, plugin } = loaded
        return {
          configured: configurationData(route, version),
          name: plugin.name,
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
        routes: found,
        warnings: [],
        checked: options,
      }
    },
  }
}

function refuseLoaded(routes: readonly CheckedRouteOptions[]): void {
  const message =
    'is already loaded, and has no bytes that admin or state could store: pass its path, URL or bytes'
  const found = routes.flatMap(({ plugin }, index) =>
    typeof plugin === 'object' && isPlugin(plugin)
      ? [problemAt(['routes', String(index), 'plugin'], message)]
      : [],
  )
  if (found.length > 0) throw optionsError(found)
}

/** A plug-in that the program has loaded is a version without modules: only this process has it. */
function loadedBefore(route: CheckedRouteOptions, { plugins }: ReadingOptions): LoadedVersion | undefined {
  const { plugin } = route
  if (typeof plugin !== 'object' || !isPlugin(plugin)) return undefined
  const digest = routeIds.get(plugin) ?? randomUUID()
  routeIds.set(plugin, digest)
  const { file, settings } = plugin
  const version: Version = {
    digest,
    name: file,
    from: 'file',
    addedAt: new Date().toISOString(),
    modules: [],
    settings,
  }
  plugins.set(version, route, plugin)
  return { plugin, version }
}

const routeIds = new WeakMap<Plugin, string>()

/** The options of a route that are plain data. */
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
