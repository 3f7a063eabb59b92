import { type Given, type GivenEntry, type GivenMap, type Origin, renderOrigin } from './given.ts'

/**
 * What is left of a config file when all that is wrong has been taken out, so that what else is wrong can be looked for:
 * a wrong option goes, a route or plug-in without what it needs goes as a whole, and so do the options of the server
 * if one of them is wrong, for some depend on others.
 *
 * @param wrong - Where the problems are.
 */
export function prune(file: GivenMap, wrong: readonly Origin[]): GivenMap {
  const places = new Set(wrong.map(renderOrigin))
  const isAt = ({ origin }: { readonly origin: Origin }) => places.has(renderOrigin(origin))
  const isWrong = (given: Given): boolean =>
    isAt(given) || childrenOf(given).some((child) => isAt(child) || isWrong(child.given))
  const sound = (entry: GivenEntry) => !isAt(entry) && !isWrong(entry.given)

  /** With a map's wrong entries taken out; undefined if it is no map, or is itself what is wrong. */
  const cut = ({ origin, given }: GivenEntry): GivenMap | undefined => {
    if (given.kind !== 'map' || isAt({ origin }) || isAt(given)) return undefined
    return filtered(given, sound)
  }

  const server = filtered(file, (_entry, key) => !PARTS.includes(key))
  const entries = new Map(childrenOf(server).every(sound) ? server.entries : [])
  const defaults = file.entries.get('defaults')
  const plugins = file.entries.get('plugins')
  const routes = file.entries.get('routes')

  const left = new Map<string, GivenEntry>()
  if (plugins?.given.kind === 'map') {
    for (const [name, entry] of plugins.given.entries) {
      const plugin = cut(entry)
      if (plugin?.entries.has('source')) left.set(name, { ...entry, given: plugin })
    }
    entries.set('plugins', { ...plugins, given: { ...plugins.given, entries: left } })
  }
  if (defaults) {
    const options = cut(defaults)
    if (options) entries.set('defaults', { ...defaults, given: options })
  }
  if (routes?.given.kind === 'list') {
    const named = plugins?.given.kind === 'map' ? plugins.given.entries : new Map()
    const isLost = ({ entries }: GivenMap) => {
      const source = entries.get('plugin')?.given
      const name = source?.kind === 'scalar' ? String(source.value) : undefined
      return name === undefined || (named.has(name) && !left.has(name))
    }
    const items = routes.given.items.flatMap((given) => cut({ origin: given.origin, given }) ?? [])
    entries.set('routes', {
      ...routes,
      given: { ...routes.given, items: items.filter((item) => !isLost(item)) },
    })
  }
  return { ...file, entries }
}

/** Of a config file, what is looked at piece by piece. */
const PARTS: readonly string[] = ['defaults', 'plugins', 'routes']

function filtered(map: GivenMap, keep: (entry: GivenEntry, key: string) => boolean): GivenMap {
  return { ...map, entries: new Map([...map.entries].filter(([key, entry]) => keep(entry, key))) }
}

function childrenOf(given: Given): GivenEntry[] {
  if (given.kind === 'map') return [...given.entries.values()]
  return given.kind === 'list' ? given.items.map((item) => ({ origin: item.origin, given: item })) : []
}
