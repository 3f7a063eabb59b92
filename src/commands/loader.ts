import type { Environment } from '../config/config.ts'
import type { CheckedLoadOptions, CheckedRouteOptions } from '../config/options.ts'
import { type LoadOptions, loadPlugin, type Plugin } from '../plugin/plugin.ts'
import { defaultCacheFolder } from '../source/download-cache.ts'
import { AUTHORIZATION_VARIABLE } from '../source/url.ts'
import type { Host } from './command.ts'

/** Loads the plug-in of a route; several routes of the same plug-in have the same. */
export type Loader = (route: CheckedRouteOptions) => Promise<Plugin>

/** Plug-ins are loaded here, and not with the routes, because who downloads may have to say who he is. */
export function openLoader(options: CheckedLoadOptions, { environment }: Host): Loader {
  const loading = new Map<string, Promise<Plugin>>()
  return (route) => {
    const { plugin, links, memoryMax, isolation } = route
    const key = JSON.stringify([plugin, links, memoryMax, isolation])
    const loaded = loading.get(key) ?? loadPlugin(plugin, loadOptions(route, options, environment))
    loading.set(key, loaded)
    return loaded
  }
}

/** How the plug-in of a route is loaded. */
export function loadOptions(
  { links, memoryMax, isolation }: CheckedRouteOptions,
  { cacheFolder, downloadLimit, downloadTimeoutMs }: CheckedLoadOptions,
  environment: Environment,
): LoadOptions {
  return {
    links: Object.entries(links).map(([name, source]) => ({ name, source })),
    memoryMax,
    isolation,
    authorization: environment[AUTHORIZATION_VARIABLE] || undefined,
    cacheFolder: cacheFolder ?? defaultCacheFolder(environment),
    maxBytes: downloadLimit,
    timeoutMs: downloadTimeoutMs,
  }
}
