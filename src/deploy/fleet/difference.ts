import { withoutPassword } from '../../options/config.ts'
import {
  type ConfigMap,
  type ConfigNode,
  type ConfigScalar,
  nodeAt,
  toData,
} from '../../options/config-node.ts'
import { optionsWhere } from '../../options/facts.ts'
import { defaultMethod } from '../../options/served-route.ts'
import { type DesiredRoute, idOf } from '../desired-state.ts'
import { type Edits, type PluginVersions, trafficOf } from '../edits.ts'
import { type SharedConfiguration, sharedOptions } from './shared-configuration.ts'

/** The differences between two states of a fleet, as text for people. Secrets are not in it. */
export interface FleetDifference {
  readonly routes: readonly RouteDifference[]
  /** Digests and shares of calls, by plug-in. */
  readonly plugins: readonly ValueDifference[]
  /** Options of the server. */
  readonly server: readonly ValueDifference[]
  /** Defaults for routes that are added later, such as `timeoutMs` or `plugins.hello.timeoutMs`. */
  readonly defaults: readonly ValueDifference[]
}

export interface ValueDifference {
  readonly name: string
  /** undefined: it is not there. */
  readonly before?: string | undefined
  readonly after?: string | undefined
}

export interface RouteDifference {
  /** Method and URL, such as `POST /hello`. */
  readonly route: string
  readonly change: 'added' | 'removed' | 'changed'
  /** Whether the admin API has replaced or removed the route, so that nothing changes for clients. */
  readonly overridden: boolean
  readonly options: readonly ValueDifference[]
}

/** A state of a fleet. The configuration has variables as they are written, see `parseShared`. */
export interface ComparedState {
  readonly configuration: SharedConfiguration
  readonly edits: Edits
}

/** Compares what states say. Places in files, and files of plug-ins with equal digests, do not matter. */
export function differenceOf(before: ComparedState, after: ComparedState): FleetDifference {
  return {
    routes: routeDifferences(before, after),
    plugins: differences(pluginsOf(before.edits), pluginsOf(after.edits)),
    server: differences(serverOf(before.configuration), serverOf(after.configuration)),
    defaults: differences(defaultsOf(before.configuration), defaultsOf(after.configuration)),
  }
}

export function isEmpty({ routes, plugins, server, defaults }: FleetDifference): boolean {
  return [routes, plugins, server, defaults].every((each) => each.length === 0)
}

function routeDifferences(before: ComparedState, after: ComparedState): readonly RouteDifference[] {
  const [old, now] = [before, after].map(
    ({ configuration }) => new Map(configuration.routes.map((route) => [idOf(route.configured), route])),
  )
  const ids = [...new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])])]
  return ids.flatMap((id): RouteDifference[] => {
    const [was, is] = [old?.get(id), now?.get(id)]
    const options = differences(optionsOfRoute(was), optionsOfRoute(is))
    const one = is ?? was
    if (!one || options.length === 0) return []
    const change = !was ? 'added' : is ? 'changed' : 'removed'
    return [{ route: nameOfRoute(one), change, overridden: after.edits.routes.has(id), options }]
  })
}

function nameOfRoute({ configured }: DesiredRoute): string {
  const text = (option: string) => {
    const node = nodeAt(configured, [option])
    return node && toData(node)
  }
  const method = text('method') ?? defaultMethod(text('contract'))
  return `${[method].flat().join(',')} ${text('host') ?? ''}${text('url') ?? '/'}`
}

/** Files of plug-ins: their names and digests are compared. */
const SOURCES = optionsWhere('route', ({ reach }) => reach === 'source')

function optionsOfRoute(route: DesiredRoute | undefined): Values {
  if (!route) return new Map()
  return new Map([['plugin', plain(route.name)], ...valuesOf(route.configured, SOURCES)])
}

function pluginsOf({ plugins }: Edits): Values {
  const used = [...plugins].filter(([, plugin]) => trafficOf(plugin).length > 0)
  return new Map(used.map(([name, plugin]) => [name, plain(versionsOf(plugin))]))
}

function versionsOf(plugin: PluginVersions): string {
  const shares = trafficOf(plugin)
  return shares
    .map(({ digest, percent }) => (shares.length === 1 ? digest : `${digest} ${percent}%`))
    .join(', ')
}

function serverOf({ server }: SharedConfiguration): Values {
  return valuesOf(sharedOptions(server), new Set())
}

function defaultsOf({ defaults }: SharedConfiguration): Values {
  const own = [...defaults.plugins].flatMap(([name, plugin]) =>
    [...valuesOf(plugin, SOURCES)].map(([option, value]) => [`plugins.${name}.${option}`, value] as const),
  )
  return new Map([...valuesOf(defaults.route, SOURCES), ...own])
}

/** Values by name: what is compared, and what is shown of it. */
type Values = ReadonlyMap<string, { readonly text: string; readonly shown: string }>

function plain(text: string) {
  return { text, shown: text }
}

function valuesOf({ entries }: ConfigMap, without: ReadonlySet<string>): Values {
  const wanted = [...entries].filter(([name]) => !without.has(name))
  return new Map(
    wanted.map(([name, { configured }]) => {
      const text = JSON.stringify(sortedData(configured, ({ value }) => value))
      const shown = JSON.stringify(
        sortedData(configured, (scalar) => scalar.shown ?? withoutPassword(scalar.value)),
      )
      return [name, { text, shown }]
    }),
  )
}

/** Data whose keys are sorted. */
function sortedData(node: ConfigNode, partOf: (scalar: ConfigScalar) => unknown): unknown {
  switch (node.kind) {
    case 'scalar':
      return partOf(node)
    case 'list':
      return node.items.map((item) => sortedData(item, partOf))
    case 'map': {
      const entries = [...node.entries].sort(([one], [other]) => (one < other ? -1 : 1))
      return Object.fromEntries(entries.map(([key, entry]) => [key, sortedData(entry.configured, partOf)]))
    }
  }
}

function differences(before: Values, after: Values): readonly ValueDifference[] {
  const names = [...new Set([...before.keys(), ...after.keys()])]
  return names.flatMap((name) => {
    const [was, is] = [before.get(name), after.get(name)]
    return was?.text === is?.text ? [] : [{ name, before: was?.shown, after: is?.shown }]
  })
}
