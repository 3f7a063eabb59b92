import type { Host } from '../cli/command.ts'
import type { Environment } from '../options/config.ts'
import type { CheckedLoadOptions, CheckedRouteOptions } from '../options/options.ts'
import type { LoadPlace } from '../plugin/compiled-modules.ts'
import { compilePlugin, type LoadOptions, type Plugin } from '../plugin/plugin.ts'
import { defaultCacheFolder } from '../plugin/source/download-cache.ts'
import { readSource, type Source, type SourceOptions } from '../plugin/source/source.ts'
import { AUTHORIZATION_VARIABLE } from '../plugin/source/url.ts'

/** Loads the plug-in of a route; several routes of the same plug-in have the same. */
export type Loader = (route: CheckedRouteOptions) => Promise<Plugin>

/** What somebody wants to know of what is loaded, and where and until when that is done. */
export interface LoadWatcher extends LoadPlace {
  /** Told of each file or folder of this machine before it is read. */
  onFile?(path: string): void
  /** Told what a plug-in was made from. */
  onSource?(plugin: Plugin, source: Source): void
}

/** Plug-ins are loaded here, and not with the routes, because who downloads may have to say who he is. */
export function openLoader(
  options: CheckedLoadOptions,
  { environment }: Host,
  watcher: LoadWatcher = {},
): Loader {
  const loading = new Map<string, Promise<Plugin>>()
  const load = async (route: CheckedRouteOptions) => {
    const { onFile, isServing, signal, log } = watcher
    const how = { ...loadOptions(route, options, environment), onFile, isServing, signal, log }
    const source = await readSource(route.plugin, how)
    const plugin = await compilePlugin(source, how)
    watcher.onSource?.(plugin, source)
    return plugin
  }
  return (route) => {
    const { plugin, links, memoryMax, isolation, engine } = route
    const key = JSON.stringify([plugin, links, memoryMax, isolation, engine === 'subprocess'])
    const loaded = loading.get(key) ?? load(route)
    loading.set(key, loaded)
    return loaded
  }
}

/** How the plug-in of a route is loaded. */
export function loadOptions(
  { links, memoryMax, isolation, engine }: CheckedRouteOptions,
  options: CheckedLoadOptions,
  environment: Environment,
): LoadOptions {
  return {
    links: Object.entries(links).map(([name, source]) => ({ name, source })),
    memoryMax,
    isolation,
    moduleLimits: options.moduleLimits,
    allowGc: options.allowGc,
    compiles: engine !== 'subprocess',
    ...sourceOptions(options, environment),
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
