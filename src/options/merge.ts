import { nameOfSource } from '../plugin/source/url.ts'
import type { Config } from './config.ts'
import { COMMAND_LINE, type ConfigMap, mapOf, mergeMaps } from './config-node.ts'
import { loadSchema, serverSchema } from './options-schema.ts'

/** The merged configuration of all origins, without defaults. */
export interface Merged {
  /** Options of the server, without routes. */
  readonly server: ConfigMap
  readonly load: ConfigMap
  /** Options of a route that the file does not define: its plug-in is given as a word. */
  readonly route: ConfigMap
  /** The plug-ins of the file by name, each with all options of its routes. */
  readonly plugins: ReadonlyMap<string, ConfigMap>
  /** The functions that are served of a plug-in of the file, if it chooses some. */
  readonly exports: ReadonlyMap<string, readonly string[]>
  /** The file's routes; undefined if it lists none. */
  readonly routes: readonly ConfigMap[] | undefined
  /** The name of the plug-in of each of the file's routes. */
  readonly routePlugins: readonly string[]
}

/**
 * Merges flags over the environment over the config file. Within the file a route wins over its plug-in, and the
 * plug-in over `defaults`; flags and variables apply to every route. Maps such as `config` are merged key by key.
 */
export function mergeConfig({ flags, variables }: Config, file: ConfigMap = EMPTY_CONFIG): Merged {
  const defaults = mapIn(file, 'defaults')
  const named = mapsIn(mapIn(file, 'plugins'))
  const whole = (...own: readonly ConfigMap[]) => mergeMaps(defaults, ...own, variables.route, flags.route)
  return {
    server: mergeMaps(pickKnown(file, serverSchema), variables.server, flags.server),
    load: mergeMaps(pickKnown(file, loadSchema), variables.load, flags.load),
    route: whole(),
    plugins: new Map(named.map(([name, plugin]) => [name, whole(withoutOwn(withPluginOptions(plugin)))])),
    exports: new Map(
      named.flatMap(([name, plugin]) => {
        const chosen = textsIn(plugin, 'exports')
        return chosen.length > 0 ? [[name, chosen]] : []
      }),
    ),
    routes: configRoutes(file)?.map((route) => mergeMaps(route, variables.route, flags.route)),
    routePlugins: (listIn(file, 'routes') ?? []).map((route) => {
      const plugin = route.entries.get('plugin')?.configured
      const name = textIn(route, 'plugin')
      if (mapIn(file, 'plugins').entries.has(name)) return name
      return nameOfSource((plugin?.kind === 'scalar' && plugin.written) || name)
    }),
  }
}

/** The routes of a config file, with the options of their plug-ins and of `defaults`. */
export function configRoutes(file: ConfigMap): ConfigMap[] | undefined {
  const plugins = mapIn(file, 'plugins')
  return listIn(file, 'routes')?.map((route) => {
    const plugin = mapIn(plugins, textIn(route, 'plugin'))
    return mergeMaps(mapIn(file, 'defaults'), withoutOwn(plugin), withPluginOptions(plugin, route))
  })
}

const EMPTY_CONFIG = mapOf([], COMMAND_LINE)

/** The options of a route are those of its plug-in, whose `source` is the route's `plugin`. */
function withPluginOptions(plugin: ConfigMap, route: ConfigMap = plugin): ConfigMap {
  const source = plugin.entries.get('source')
  return source ? { ...route, entries: new Map([...route.entries, ['plugin', source]]) } : route
}

/** What a plug-in has that is no option of its routes. */
const OF_PLUGINS: ReadonlySet<string> = new Set(['source', 'exports'])

function withoutOwn(map: ConfigMap): ConfigMap {
  return { ...map, entries: new Map([...map.entries].filter(([key]) => !OF_PLUGINS.has(key))) }
}

/** The options of a schema except routes, which are merged separately. */
function pickKnown(file: ConfigMap, { properties }: { readonly properties: object }): ConfigMap {
  const entries = [...file.entries].filter(([key]) => key !== 'routes' && Object.hasOwn(properties, key))
  return { ...file, entries: new Map(entries) }
}

function mapIn(map: ConfigMap, key: string): ConfigMap {
  const node = map.entries.get(key)?.configured
  return node?.kind === 'map' ? node : EMPTY_CONFIG
}

function mapsIn(map: ConfigMap): [string, ConfigMap][] {
  return [...map.entries].flatMap(([key, { configured }]) =>
    configured.kind === 'map' ? [[key, configured]] : [],
  )
}

function listIn(map: ConfigMap, key: string): ConfigMap[] | undefined {
  const node = map.entries.get(key)?.configured
  return node?.kind === 'list' ? node.items.filter((item) => item.kind === 'map') : undefined
}

function textsIn(map: ConfigMap, key: string): string[] {
  const node = map.entries.get(key)?.configured
  if (node?.kind !== 'list') return []
  return node.items.flatMap((item) => (item.kind === 'scalar' ? [String(item.value)] : []))
}

function textIn(map: ConfigMap, key: string): string {
  const node = map.entries.get(key)?.configured
  return node?.kind === 'scalar' ? String(node.value) : ''
}
