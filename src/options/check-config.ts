import { OptionsError } from '../errors/errors.ts'
import { restoreError } from '../errors/failure.ts'
import {
  COMMAND_LINE,
  type ConfigEntry,
  type ConfigMap,
  type ConfigNode,
  mapOf,
  type Origin,
  originAt,
  renderOrigin,
  toData,
} from './config-node.ts'
import { flags } from './flags.ts'
import {
  type CheckedRouteOptions,
  type CheckedServerOptions,
  checkServerOptions,
  problemsOf,
} from './options.ts'

/** The options of the server and of the routes, as one map. */
export function withRoutes(server: ConfigMap, routes: readonly ConfigMap[]): ConfigMap {
  const list = { kind: 'list', origin: server.origin, items: routes } as const
  return mapOf(
    [...[...server.entries].map(([key, { configured }]) => [key, configured] as const), ['routes', list]],
    server.origin,
  )
}

/**
 * Checks options from several origins, and fills in defaults. Routes that were checked with the options of a server are
 * not checked again.
 *
 * @throws {@link OptionsError} listing every problem with its flag, variable or line.
 */
export function checkNode(server: ConfigMap, routes: readonly ConfigMap[]): CheckedServerOptions {
  const known = checkedServers.get(server)
  const passed = routes.flatMap((route) => {
    const found = checkedRoutes.get(route)
    return found?.server === server ? [found.options] : []
  })
  if (known && passed.length === routes.length) return { ...known, routes: passed }
  const whole = withRoutes(server, routes)
  const checked = atLocation(whole, () => checkServerOptions(toData(whole)))
  checkedServers.set(server, checked)
  for (const [index, options] of checked.routes.entries()) {
    const route = routes[index]
    if (route) checkedRoutes.set(route, { server, options })
  }
  return checked
}

/** Checks the options of a single route, without its relation to other routes, such as to load its plug-in. */
export function checkRoute(route: ConfigMap): CheckedRouteOptions | undefined {
  return checkedRoutes.get(route)?.options ?? checkNode(NO_SERVER, [route]).routes[0]
}

const checkedServers = new WeakMap<ConfigMap, CheckedServerOptions>()
const checkedRoutes = new WeakMap<ConfigMap, { server: ConfigMap; options: CheckedRouteOptions }>()

const NO_SERVER = mapOf([], COMMAND_LINE)

/** Runs a check; the message of its error names the origin of each problem. */
export function atLocation<Checked>(node: ConfigMap, check: () => Checked): Checked {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error
    const lines = problemsOf(error).map(({ option, path, ofKey, message }) => {
      const origin = originAt(node, path, ofKey)
      const name = option.replace(/^routes\[\d+\]\./, '')
      const flag = isCommandLine(origin) && flags.find((each) => each.option === name)
      if (flag) return `  --${flag.name}: ${message}`
      const what = namesOption(origin) ? '' : `${name}: `
      return `  ${renderOrigin(origin)}: ${what}${message}`
    })
    // A wrong value in the defaults appears in each route.
    throw new OptionsError([...new Set(lines)].join('\n'), { cause: error })
  }
}

function isCommandLine(origin: Origin): boolean {
  return origin.kind === 'flag' && origin.name === COMMAND_LINE.name
}

/** True for flags and variables; a line of a file, a word and the admin API have several. */
function namesOption(origin: Origin): boolean {
  return origin.kind !== 'file' && /^(?:--|[A-Z])/.test(origin.name)
}

/**
 * Adds the line of the config file to an error caused by a route's option. Errors of options from flags and variables
 * stay unchanged: their message names the flag, the variable or the plug-in.
 *
 * @param options - Options of the route; the first one that is set is the cause.
 */
export function withLocation(error: unknown, route: ConfigMap, ...options: readonly string[]): unknown {
  const option = options.find((each) => route.entries.has(each))
  const origin = option === undefined ? undefined : originAt(route, [option])
  if (origin?.kind !== 'file' || !(error instanceof Error && 'code' in error)) return error
  // A new error object: routes of the same plug-in share the same failure.
  return restoreError(String(error.code), `${renderOrigin(origin)}: ${error.message}`, error) ?? error
}

/**
 * A config file without its wrong parts, so that further problems can be found: a wrong option is removed, a route or
 * plug-in without required options is removed, and so are all options of the server if one of them is wrong, because
 * some depend on others.
 *
 * @param wrong - The positions of the problems.
 */
export function withoutInvalid(file: ConfigMap, wrong: readonly Origin[]): ConfigMap {
  const places = new Set(wrong.map(renderOrigin))
  const isAt = ({ origin }: { readonly origin: Origin }) => places.has(renderOrigin(origin))
  const isWrong = (node: ConfigNode): boolean =>
    isAt(node) || childrenOf(node).some((child) => isAt(child) || isWrong(child.configured))
  const sound = (entry: ConfigEntry) => !isAt(entry) && !isWrong(entry.configured)

  /** A map without its wrong entries; undefined if it is not a map, or is wrong itself. */
  const cut = ({ origin, configured }: ConfigEntry): ConfigMap | undefined => {
    if (configured.kind !== 'map' || isAt({ origin }) || isAt(configured)) return undefined
    return filtered(configured, sound)
  }

  const server = filtered(file, (_entry, key) => !PARTS.includes(key))
  const entries = new Map(childrenOf(server).every(sound) ? server.entries : [])
  const defaults = file.entries.get('defaults')
  const plugins = file.entries.get('plugins')
  const routes = file.entries.get('routes')

  const left = new Map<string, ConfigEntry>()
  if (plugins?.configured.kind === 'map') {
    for (const [name, entry] of plugins.configured.entries) {
      const plugin = cut(entry)
      if (plugin?.entries.has('source')) left.set(name, { ...entry, configured: plugin })
    }
    entries.set('plugins', { ...plugins, configured: { ...plugins.configured, entries: left } })
  }
  if (defaults) {
    const options = cut(defaults)
    if (options) entries.set('defaults', { ...defaults, configured: options })
  }
  if (routes?.configured.kind === 'list') {
    const named = plugins?.configured.kind === 'map' ? plugins.configured.entries : new Map()
    const isLost = ({ entries }: ConfigMap) => {
      const source = entries.get('plugin')?.configured
      const name = source?.kind === 'scalar' ? String(source.value) : undefined
      return name === undefined || (named.has(name) && !left.has(name))
    }
    const items = routes.configured.items.flatMap(
      (node) => cut({ origin: node.origin, configured: node }) ?? [],
    )
    entries.set('routes', {
      ...routes,
      configured: { ...routes.configured, items: items.filter((item) => !isLost(item)) },
    })
  }
  return { ...file, entries }
}

/** Keys of a config file whose entries are checked one by one. */
const PARTS: readonly string[] = ['defaults', 'plugins', 'routes']

function filtered(map: ConfigMap, keep: (entry: ConfigEntry, key: string) => boolean): ConfigMap {
  return { ...map, entries: new Map([...map.entries].filter(([key, entry]) => keep(entry, key))) }
}

function childrenOf(node: ConfigNode): ConfigEntry[] {
  if (node.kind === 'map') return [...node.entries.values()]
  return node.kind === 'list' ? node.items.map((item) => ({ origin: item.origin, configured: item })) : []
}
