import type { Environment } from '../options/config.ts'
import type { CheckedLoadOptions, CheckedRouteOptions } from '../options/options.ts'
import { type LoadedBy, loadedFor } from '../options/resolved-route.ts'
import { defaultCacheFolder } from '../platform/cache-folder.ts'
import type { LoadPlace } from '../plugin/compiled-modules.ts'
import { compilePlugin, type LoadOptions, type Plugin } from '../plugin/plugin.ts'
import { readSource, type SourceOptions } from '../plugin/source/source.ts'
import { AUTHORIZATION_VARIABLE } from '../plugin/source/url.ts'
import { toVersion, type Version } from './edits.ts'

/** Loads the plug-in of a route. Routes of the same plug-in share it. */
export type Loader = (route: CheckedRouteOptions) => Promise<LoadedVersion>

export interface LoadedVersion {
  readonly plugin: Plugin
  readonly version: Version
}

/** How a configuration is read: its folder, abort signal and callbacks. */
export interface ReadingOptions extends LoadPlace {
  /** Called with each local file or folder before it is read. */
  onFile?(path: string): void
  /** Receives the loaded plug-ins. */
  readonly plugins: PluginTable
}

/** Loaded plug-ins, by version and by the route options that affect loading. */
export class PluginTable {
  /** Bytes of their modules, by digest, read since the last {@link PluginTable.only}. */
  readonly modules = new Map<string, Uint8Array>()
  /** The number of plug-ins of the configuration, which decides whether many are loaded on their first calls. */
  expected = 1
  readonly #plugins = new Map<string, Plugin>()

  get(version: Version, route: LoadedBy): Plugin | undefined {
    return this.#plugins.get(this.#key(version, route))
  }

  set(version: Version, route: LoadedBy, plugin: Plugin): void {
    this.#plugins.set(this.#key(version, route), plugin)
  }

  /** A table that starts with some of these entries, without bytes. */
  only(digests: ReadonlySet<string>): PluginTable {
    const table = new PluginTable()
    table.expected = this.expected
    for (const [key, plugin] of this.#plugins)
      if (digests.has(key.slice(0, key.indexOf(' ')))) table.#plugins.set(key, plugin)
    return table
  }

  #key({ digest, name }: Version, route: LoadedBy): string {
    return `${digest} ${JSON.stringify([name, loadedFor(route, this.expected)])}`
  }
}

/** Plug-ins are loaded here and not with the routes, because downloads may need credentials. */
export function openLoader(
  options: CheckedLoadOptions,
  sources: SourceOptions,
  { plugins, ...reading }: ReadingOptions,
): Loader {
  const loading = new Map<string, Promise<LoadedVersion>>()
  const load = async (route: CheckedRouteOptions) => {
    const how = { ...loadOptions(route, plugins.expected, options, sources), ...reading }
    const source = await readSource(route.plugin, how)
    const { version, modules } = toVersion(source, 'file')
    const plugin = plugins.get(version, route) ?? (await compilePlugin(source, how))
    plugins.set(version, route, plugin)
    for (const [digest, bytes] of modules) plugins.modules.set(digest, bytes)
    return { plugin, version }
  }
  return (route) => {
    const { plugin, links } = route
    if (typeof plugin !== 'string') return load(route)
    const key = JSON.stringify([plugin, links, loadedFor(route, plugins.expected)])
    const loaded = loading.get(key) ?? load(route)
    loading.set(key, loaded)
    return loaded
  }
}

/** The loading options of a route's plug-in. @param plugins - The number of plug-ins of the configuration. */
export function loadOptions(
  route: Pick<CheckedRouteOptions, 'links'> & LoadedBy,
  plugins: number,
  { moduleLimits, allowGc }: Pick<CheckedLoadOptions, 'moduleLimits' | 'allowGc'>,
  sources: SourceOptions,
): LoadOptions {
  return {
    links: Object.entries(route.links).map(([name, source]) => ({ name, source })),
    ...loadedFor(route, plugins),
    moduleLimits,
    allowGc,
    ...sources,
  }
}

/** How remote sources are read. */
export function sourceOptions(
  { cacheFolder, downloadLimit, downloadTimeoutMs }: CheckedLoadOptions,
  environment: Environment,
): SourceOptions {
  return {
    authorization: environment[AUTHORIZATION_VARIABLE] || undefined,
    cacheFolder: cacheFolder ?? defaultCacheFolder(environment),
    maxBytes: downloadLimit,
    timeoutMs: downloadTimeoutMs,
  }
}
