import type { Environment } from '../options/config.ts'
import type { CheckedLoadOptions, CheckedRouteOptions } from '../options/options.ts'
import { type LoadedBy, loadedFor } from '../options/resolved-route.ts'
import type { LoadPlace } from '../plugin/compiled-modules.ts'
import { compilePlugin, type LoadOptions, type Plugin } from '../plugin/plugin.ts'
import { defaultCacheFolder } from '../plugin/source/download-cache.ts'
import { readSource, type SourceOptions } from '../plugin/source/source.ts'
import { AUTHORIZATION_VARIABLE } from '../plugin/source/url.ts'
import { toVersion, type Version } from './edits.ts'

/** Loads the plug-in of a route; several routes of the same plug-in have the same. */
export type Loader = (route: CheckedRouteOptions) => Promise<LoadedVersion>

export interface LoadedVersion {
  readonly plugin: Plugin
  readonly version: Version
}

/** How a configuration is read: where, until when, and what is noted of it. */
export interface ReadingOptions extends LoadPlace {
  /** Called with each file or folder of this machine before it is read. */
  onFile?(path: string): void
  /** Gets the plug-ins that are loaded. */
  readonly plugins: PluginTable
}

/** Plug-ins that were loaded, by version and by the options of a route that count for that. */
export class PluginTable {
  /** Bytes of their modules, by digest: those that were read since the last {@link PluginTable.only}. */
  readonly modules = new Map<string, Uint8Array>()
  readonly #plugins = new Map<string, Plugin>()

  get(version: Version, route: LoadedBy): Plugin | undefined {
    return this.#plugins.get(pluginKey(version, route))
  }

  set(version: Version, route: LoadedBy, plugin: Plugin): void {
    this.#plugins.set(pluginKey(version, route), plugin)
  }

  /** A table that begins with some of these, and without bytes. */
  only(digests: ReadonlySet<string>): PluginTable {
    const table = new PluginTable()
    for (const [key, plugin] of this.#plugins)
      if (digests.has(key.slice(0, key.indexOf(' ')))) table.#plugins.set(key, plugin)
    return table
  }
}

function pluginKey({ digest, name }: Version, route: LoadedBy): string {
  return `${digest} ${JSON.stringify([name, loadedFor(route)])}`
}

/** Plug-ins are loaded here, and not with the routes, because who downloads may have to say who he is. */
export function openLoader(
  options: CheckedLoadOptions,
  sources: SourceOptions,
  { plugins, ...reading }: ReadingOptions,
): Loader {
  const loading = new Map<string, Promise<LoadedVersion>>()
  const load = async (route: CheckedRouteOptions) => {
    const how = { ...loadOptions(route, options, sources), ...reading }
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
    const key = JSON.stringify([plugin, links, loadedFor(route)])
    const loaded = loading.get(key) ?? load(route)
    loading.set(key, loaded)
    return loaded
  }
}

/** How the plug-in of a route is loaded. */
export function loadOptions(
  route: Pick<CheckedRouteOptions, 'links'> & LoadedBy,
  { moduleLimits, allowGc }: Pick<CheckedLoadOptions, 'moduleLimits' | 'allowGc'>,
  sources: SourceOptions,
): LoadOptions {
  return {
    links: Object.entries(route.links).map(([name, source]) => ({ name, source })),
    ...loadedFor(route),
    moduleLimits,
    allowGc,
    ...sources,
  }
}

/** How what comes from the network is read. */
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
