import { AdminForbiddenError, StateInvalidError } from '../errors/errors.ts'
import {
  type ConfigMap,
  type ConfigNode,
  fromData,
  mapOf,
  mergeMaps,
  type Origin,
  toData,
} from '../options/config-node.ts'
import type { Merged } from '../options/merge.ts'
import type { CheckedRouteOptions, CheckedServerOptions } from '../options/options.ts'
import { defaultMethod } from '../options/served-route.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import {
  type Edits,
  type PluginVersions,
  routeId,
  trafficOf,
  type Version,
  versionOf,
  withoutPlugins,
  withPlugins,
  withRoute,
  withVersion,
} from './edits.ts'

/**
 * Everything that files, flags and edits ask for, as plain data, kept so that a change need not read the rest again.
 * Plug-ins are named by the digests of their modules, whose bytes are stored elsewhere. Only code that a program passes
 * to `createServer` is not data: see {@link Configuration.checked}.
 */
export interface DesiredState {
  /** The revision of the deployment that it was derived from. */
  readonly revision: number
  readonly configuration: Configuration
  /** Empty without an admin listener and a state folder. */
  readonly edits: Edits
  /** Deviations from the requested state, as text. */
  readonly warnings: readonly string[]
}

/** What files, flags and variables ask for, or a program's options. */
export interface Configuration {
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  /** Options of the server without its routes, with their origins. */
  readonly server: ConfigMap
  /** The options for loading plug-ins. */
  readonly load: ConfigMap
  /** Defaults for added routes: common ones, and those of each plug-in that has some. */
  readonly defaults: Pick<Merged, 'route' | 'plugins'>
  readonly routes: readonly DesiredRoute[]
  /** Skipped routes and dangerous settings, as text. */
  readonly warnings: readonly string[]
  /** Problems, already reported; the rest is checked without the affected part. */
  readonly problem?: 'file' | 'options' | undefined
  /** The validated options of a program: the code among them cannot be part of the data above. */
  readonly checked?: CheckedServerOptions | undefined
}

/** A route of the configuration. */
export interface DesiredRoute {
  /** The options with their origins. */
  readonly configured: ConfigMap
  /** The name of its plug-in, from the config file or the file name. Equal names from several places get suffixes. */
  readonly name: string
  /** The file or line that it comes from, for messages. */
  readonly from: string
  /** The digest of its plug-in when the configuration was read. */
  readonly version: Version
  /** The options that a program has passed: see {@link Configuration.checked}. */
  readonly checked?: CheckedRouteOptions | undefined
}

/** A route with the versions that share its calls. */
export interface RouteTarget extends Omit<DesiredRoute, 'version'> {
  readonly live: Version
  readonly next?: { readonly version: Version; readonly percent: number } | undefined
}

/** Plug-ins whose versions are kept in case they return to the configuration. */
const KEPT_GONE = 10

/** The origin of routes of the admin API, for messages. */
export const ADMIN = { kind: 'flag', name: 'admin API' } as const satisfies Origin

/**
 * A configuration combined with the existing edits. Each plug-in of the configuration becomes a version. A version that
 * is new in the configuration overrides an earlier split of calls.
 */
export function desiredState(configuration: Configuration, edits: Edits, revision: number): DesiredState {
  const warnings: string[] = []
  const found = firstVersions(configuration)
  const changed = new Map<string, PluginVersions>()
  for (const [name, version] of found) {
    const plugin = withConfigured(edits.plugins.get(name), name, version, warnings)
    if (plugin) changed.set(name, plugin)
  }
  const gone: string[] = []
  for (const [name, plugin] of edits.plugins) {
    if (plugin.added || found.has(name)) continue
    if (plugin.traffic.length > 0) warnings.push(`plug-in ${name} is no longer in the configuration`)
    else gone.push(name)
    changed.set(name, { ...plugin, over: undefined })
  }
  const all = withoutPlugins(withPlugins(edits, changed), gone.slice(0, -KEPT_GONE))
  return { revision, configuration, edits: all, warnings }
}

/** The first version of each plug-in. Routes of one plug-in may list it with different links: the first counts. */
function firstVersions({ routes }: Configuration): Map<string, Version> {
  const found = new Map<string, Version>()
  for (const { name, version } of routes) if (!found.has(name)) found.set(name, version)
  return found
}

/** @returns undefined if nothing has changed. */
function withConfigured(
  known: PluginVersions | undefined,
  name: string,
  version: Version,
  warnings: string[],
): PluginVersions | undefined {
  const before = known ?? { added: false, versions: [], traffic: [] }
  const isNew = before.over !== version.digest
  if (isNew && before.traffic.length > 0 && before.over !== undefined)
    warnings.push(`plug-in ${name} has changed in the configuration, which overrides the admin API`)
  if (before.versions.some(({ digest }) => digest === version.digest) && !isNew) return undefined
  const traffic = isNew ? [] : before.traffic
  return withVersion({ ...before, added: false, traffic, over: version.digest }, version)
}

/** Creates the error for options that only the configuration may set. */
export type Refuse = (what: string) => Error

/** The error for an edit. */
export const refuseEdit: Refuse = (what) => new AdminForbiddenError(what)

/** The error for a state folder. */
export function refuseState(place: string): Refuse {
  return (what) => new StateInvalidError(place, `${what} can be set only in the configuration`)
}

/** The routes to serve, and the edits that are still in effect. */
interface Overlay {
  readonly targets: readonly RouteTarget[]
  readonly edits: Edits
  /** Skipped routes, as text. */
  readonly warnings: readonly string[]
}

/**
 * Applies the edits to the routes of the configuration. Loads nothing.
 *
 * @throws the error of `refuse`, and `AdminUnknownError` for a missing version.
 */
export async function overlay({ configuration, edits }: DesiredState, refuse: Refuse): Promise<Overlay> {
  const pace = new EventLoopYielder()
  const warnings: string[] = []
  let inConfiguration: ReadonlyMap<string, Version> | undefined // most versions open no folder
  const versionsOf = (name: string, plugin: PluginVersions): Pick<RouteTarget, 'live' | 'next'> => {
    const [live, second] = trafficOf(plugin)
    const version = (digest: string) => {
      const found = versionOf(plugin, digest)
      if (found.settings?.allowedPaths.length) {
        inConfiguration ??= firstVersions(configuration)
        refuseFolders(name, found, inConfiguration.get(name), refuse)
      }
      return found
    }
    const versions = { live: version(live?.digest ?? '') }
    return second
      ? { ...versions, next: { version: version(second.digest), percent: second.percent } }
      : versions
  }
  const put = (id: string, options: RouteEditOptions): RouteTarget[] => {
    const { plugin: name } = options
    const plugin = edits.plugins.get(String(name))
    if (!plugin || trafficOf(plugin).length === 0) {
      // The other routes are still served.
      warnings.push(`skipped route ${id}: its plug-in ${name} no longer exists`)
      return []
    }
    refuseEngine(id, options, configuration, refuse)
    const configured = nodeOf(options, configuration)
    return [{ configured, name: String(name), from: ADMIN.name, ...versionsOf(String(name), plugin) }]
  }
  const keep = ({ version, ...route }: DesiredRoute, id: string): RouteTarget[] => {
    const edit = edits.routes.get(id)
    if (edit) return edit.options ? put(id, edit.options) : []
    const plugin = edits.plugins.get(route.name)
    if (!plugin || plugin.traffic.length === 0) return [{ live: version, ...route }]
    return [{ ...versionsOf(route.name, plugin), ...route }]
  }
  const ids = new Set<string>()
  const kept: RouteTarget[] = []
  for (const route of configuration.routes) {
    const id = idOf(route.configured)
    ids.add(id)
    kept.push(...keep(route, id))
    await pace.step()
  }
  const more = [...edits.routes].filter(([id]) => !ids.has(id))
  const added = more.flatMap(([id, { options }]) => (options ? put(id, options) : []))
  // Drop the removal of a route that no longer exists.
  const without = more.reduce(
    (all, [id, { options }]) => (options ? all : withRoute(all, id, undefined)),
    edits,
  )
  return { targets: [...kept, ...added], edits: without, warnings }
}

type RouteEditOptions = Readonly<Record<string, unknown>>

/** Guests that the configuration runs in processes cannot be moved elsewhere. */
function refuseEngine(
  id: string,
  { engine, ...others }: RouteEditOptions,
  configuration: Configuration,
  refuse: Refuse,
): void {
  if (engine === undefined || engine === 'subprocess') return
  const plain = nodeOf(others, configuration).entries.get('engine')?.configured
  if (plain && toData(plain) === 'subprocess')
    throw refuse(`The engine of route ${id} (subprocess in the configuration)`)
}

/** An earlier version of a configured manifest may open the folders of the current one, and no others. */
function refuseFolders(
  plugin: string,
  { digest, settings }: Version,
  configured: Version | undefined,
  refuse: Refuse,
): void {
  const open = configured?.settings?.allowedPaths ?? []
  const beyond = settings?.allowedPaths.find(
    ({ host, guest, readOnly }) =>
      !open.some((each) => each.host === host && each.guest === guest && (readOnly || !each.readOnly)),
  )
  if (beyond)
    throw refuse(
      `The folder ${beyond.host} (allowedPaths) of version ${digest.slice(0, 12)} of plug-in ${plugin}`,
    )
}

/**
 * Options of a route of the admin API, with its method, host and URL resolved from the defaults of the configuration.
 * Later changes of the defaults do not move it.
 */
export function withAddress<Options extends RouteEditOptions>(
  options: Options,
  configuration: Configuration,
): Options {
  const { url = '/', method, host, contract } = desiredData(nodeOf(options, configuration))
  const place = { url, method: method ?? defaultMethod(contract) }
  return { ...options, ...place, ...(host !== undefined && { host }) }
}

/**
 * The options of a route of the admin API, over the defaults of its plug-in in the configuration or the common defaults.
 * Equal options yield the same object, which shows that the route has not changed.
 */
function nodeOf(options: RouteEditOptions, { defaults }: Configuration): ConfigMap {
  const known = nodes.get(defaults) ?? new WeakMap<object, ConfigMap>()
  nodes.set(defaults, known)
  const node =
    known.get(options) ??
    mergeMaps(
      mapOf([], ADMIN),
      defaults.plugins.get(String(options.plugin)) ?? defaults.route,
      mapFromData({ ...options, plugin: `plugin://${options.plugin}` }, ADMIN), // a name: no file is beside it
    )
  known.set(options, node)
  return node
}

const nodes = new WeakMap<object, WeakMap<object, ConfigMap>>()

/** The plain data members of an object, with one origin. */
export function mapFromData(data: object, origin: Origin): ConfigMap {
  const entries = Object.entries(data).filter(([, value]) => value !== undefined)
  return mapOf(
    entries.map(([key, value]): [string, ConfigNode] => [key, fromData(value, origin)]),
    origin,
  )
}

/** The id of an unvalidated route, cached. */
export function idOf(node: ConfigMap): string {
  const id = targetIds.get(node) ?? idOfOptions(desiredData(node))
  targetIds.set(node, id)
  return id
}

const targetIds = new WeakMap<ConfigMap, string>()

/** The id of a route with plain options. */
export function idOfOptions({ url = '/', host, method, contract }: RouteEditOptions): string {
  return routeId({
    url: String(url),
    host: host === undefined ? undefined : String(host),
    method: method === undefined ? undefined : [method].flat().map(String),
    contract,
  })
}

function desiredData({ entries }: ConfigMap): Readonly<Record<string, unknown>> {
  return Object.fromEntries([...entries].map(([key, { configured }]) => [key, toData(configured)]))
}

/** The path or URL by which a route of the configuration names its plug-in. */
export function sourceOf(node: ConfigMap): string {
  return String(toData(node.entries.get('plugin')?.configured ?? node))
}
