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
import {
  type Edits,
  editPlugin,
  type PluginVersions,
  routeId,
  trafficOf,
  type Version,
  versionOf,
  withoutPlugin,
  withRoute,
  withVersion,
} from './edits.ts'

/**
 * All that files, flags and edits ask for, as plain data: it is kept, so that one change reads nothing else again.
 * Plug-ins are named by the digests of their modules, whose bytes are elsewhere. Only what a program gives to
 * `createServer` as code is no data: see {@link Configuration.checked}.
 */
export interface DesiredState {
  /** Of the deployment that it was made from. */
  readonly revision: number
  readonly configuration: Configuration
  /** Nothing where neither an admin listener nor a state folder was asked for. */
  readonly edits: Edits
  /** What went another way than asked for when it was made, in words. */
  readonly warnings: readonly string[]
}

/** What files, flags and variables ask for, or the options that a program gives. */
export interface Configuration {
  /** Path of the config file; undefined if there is none. */
  readonly file: string | undefined
  /** Options of the server without its routes, with where they were given. */
  readonly server: ConfigMap
  /** How plug-ins are loaded. */
  readonly load: ConfigMap
  /** Options of routes that are added: those of all routes, and of the routes of each plug-in that has some. */
  readonly defaults: Pick<Merged, 'route' | 'plugins'>
  readonly routes: readonly DesiredRoute[]
  /** What is not served, and what is dangerous, in words. */
  readonly warnings: readonly string[]
  /** What is wrong with it, if anything is: that was reported, and the rest is looked at without it. */
  readonly problem?: 'file' | 'options' | undefined
  /** The options that a program gave, checked: what of them is code cannot be among the data above. */
  readonly checked?: CheckedServerOptions | undefined
}

/** A route of the configuration. */
export interface DesiredRoute {
  /** Its options, with where they were given. */
  readonly given: ConfigMap
  /** Of its plug-in: that of the config file, or the file's. Plug-ins from several places have several. */
  readonly name: string
  /** For people: the file or line that it comes from. */
  readonly from: string
  /** Of its plug-in, when the configuration was read. */
  readonly version: Version
  /** Its options as a program gave them: see {@link Configuration.checked}. */
  readonly checked?: CheckedRouteOptions | undefined
}

/** A route with the versions that get its calls. */
export interface RouteTarget extends Omit<DesiredRoute, 'version'> {
  readonly live: Version
  readonly next?: { readonly version: Version; readonly percent: number } | undefined
}

/** Plug-ins whose versions are kept for the case that the configuration has them again. */
const KEPT_GONE = 10

/** Where routes of the admin API come from, in messages. */
const ADMIN = { kind: 'flag', name: 'admin API' } as const satisfies Origin

/**
 * A configuration that was read, with the edits that there are. Each plug-in of the configuration becomes a version of
 * it; a version that the configuration did not have when calls were given to another wins.
 */
export function desiredState(configuration: Configuration, edits: Edits, revision: number): DesiredState {
  const warnings: string[] = []
  const found = firstVersions(configuration)
  let result = edits
  for (const [name, version] of found) result = withConfigured(result, name, version, warnings)
  for (const [name, plugin] of result.plugins) {
    if (plugin.added || found.has(name)) continue
    if (plugin.traffic.length > 0) warnings.push(`plug-in ${name} is not in the configuration any more`)
    result = editPlugin(result, name, { ...plugin, over: undefined })
  }
  const gone = [...result.plugins].filter(
    ([name, { added, traffic }]) => !added && traffic.length === 0 && !found.has(name),
  )
  for (const [name] of gone.slice(0, -KEPT_GONE)) result = withoutPlugin(result, name)
  return { revision, configuration, edits: result, warnings }
}

/** By plug-in: routes of one plug-in may have it with several links, of which the first counts. */
function firstVersions({ routes }: Configuration): Map<string, Version> {
  return new Map([...routes].reverse().map(({ name, version }) => [name, version]))
}

function withConfigured(edits: Edits, name: string, version: Version, warnings: string[]): Edits {
  const before: PluginVersions = edits.plugins.get(name) ?? { added: false, versions: [], traffic: [] }
  const isNew = before.over !== version.digest
  if (isNew && before.traffic.length > 0 && before.over !== undefined)
    warnings.push(`plug-in ${name} has changed in the configuration, which wins over the admin API`)
  if (before.versions.some(({ digest }) => digest === version.digest) && !isNew) return edits
  const traffic = isNew ? [] : before.traffic
  const plugin = withVersion({ ...before, added: false, traffic, over: version.digest }, version)
  return editPlugin(edits, name, plugin)
}

/** Makes the error for what only the configuration may say. */
export type Refuse = (what: string) => Error

/** An edit is refused. */
export const refuseEdit: Refuse = (what) => new AdminForbiddenError(what)

/** A state folder is. */
export function refuseState(place: string): Refuse {
  return (what) => new StateInvalidError(place, `${what} can be set in the configuration only`)
}

/** The routes that are to be served, and the edits without those that have no effect any more. */
export interface Overlay {
  readonly targets: readonly RouteTarget[]
  readonly edits: Edits
  /** Routes that were left out, in words. */
  readonly warnings: readonly string[]
}

/**
 * Lays the edits over the routes of the configuration. Loads nothing.
 *
 * @throws what `refuse` makes, and `AdminUnknownError` for a version that is missing.
 */
export function overlay({ configuration, edits }: DesiredState, refuse: Refuse): Overlay {
  const warnings: string[] = []
  const folders = firstVersions(configuration)
  const versionsOf = (name: string, plugin: PluginVersions): Pick<RouteTarget, 'live' | 'next'> => {
    const [live, second] = trafficOf(plugin)
    const version = (digest: string) => {
      const found = versionOf(plugin, digest)
      refuseFolders(name, found, folders.get(name), refuse)
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
      // The others are to be served all the same.
      warnings.push(`route ${id} was left out: its plug-in ${name} is gone`)
      return []
    }
    refuseEngine(id, options, configuration, refuse)
    const given = givenOf(options, configuration)
    return [{ given, name: String(name), from: ADMIN.name, ...versionsOf(String(name), plugin) }]
  }
  const ids = new Set<string>()
  const kept = configuration.routes.flatMap(({ version, ...route }): RouteTarget[] => {
    const id = idOf(route.given)
    ids.add(id)
    const edit = edits.routes.get(id)
    if (edit) return edit.options ? put(id, edit.options) : []
    const plugin = edits.plugins.get(route.name)
    if (!plugin || plugin.traffic.length === 0) return [{ ...route, live: version }]
    return [{ ...route, ...versionsOf(route.name, plugin) }]
  })
  const more = [...edits.routes].filter(([id]) => !ids.has(id))
  const added = more.flatMap(([id, { options }]) => (options ? put(id, options) : []))
  // That a route is gone need not be known where there is none.
  const without = more.reduce(
    (all, [id, { options }]) => (options ? all : withRoute(all, id, undefined)),
    edits,
  )
  return { targets: [...kept, ...added], edits: without, warnings }
}

type RouteEditOptions = Readonly<Record<string, unknown>>

/** Guests that the configuration keeps in processes stay there. */
function refuseEngine(
  id: string,
  { engine, ...others }: RouteEditOptions,
  configuration: Configuration,
  refuse: Refuse,
): void {
  if (engine === undefined || engine === 'subprocess') return
  const plain = givenOf(others, configuration).entries.get('engine')?.given
  if (plain && toData(plain) === 'subprocess')
    throw refuse(`The engine of route ${id}, which is subprocess in the configuration,`)
}

/** A version of a manifest that the configuration had earlier opens what that opens now, and nothing else. */
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
 * Options of a route of the admin API with the place that the defaults of the configuration give it: there it stays,
 * whatever becomes of these.
 */
export function withPlace<Options extends RouteEditOptions>(
  options: Options,
  configuration: Configuration,
): Options {
  const { url = '/', method, host, contract } = desiredData(givenOf(options, configuration))
  const place = { url, method: method ?? (contract === 'simplism' ? '*' : 'POST') }
  return { ...options, ...place, ...(host !== undefined && { host }) }
}

/**
 * The options of a route of the admin API, over those of its plug-in in the configuration, or of all there. Equal ones
 * are one object: so it shows that a route has not changed.
 */
function givenOf(options: RouteEditOptions, { defaults }: Configuration): ConfigMap {
  const known = givens.get(defaults) ?? new WeakMap<object, ConfigMap>()
  givens.set(defaults, known)
  const given =
    known.get(options) ??
    mergeMaps(
      mapOf([], ADMIN),
      defaults.plugins.get(String(options.plugin)) ?? defaults.route,
      mapFromData(options, ADMIN),
    )
  known.set(options, given)
  return given
}

const givens = new WeakMap<object, WeakMap<object, ConfigMap>>()

/** The members of an object that are data, with one origin. */
export function mapFromData(data: object, origin: Origin): ConfigMap {
  const entries = Object.entries(data).filter(([, value]) => value !== undefined)
  return mapOf(
    entries.map(([key, value]): [string, ConfigNode] => [key, fromData(value, origin)]),
    origin,
  )
}

/** Of a route that is not checked yet. It is asked for again and again. */
export function idOf(given: ConfigMap): string {
  const id = targetIds.get(given) ?? idOfOptions(desiredData(given))
  targetIds.set(given, id)
  return id
}

const targetIds = new WeakMap<ConfigMap, string>()

/** The same of plain options. */
export function idOfOptions({ url = '/', host, method, contract }: RouteEditOptions): string {
  return routeId({
    url: String(url),
    host: host === undefined ? undefined : String(host),
    method: method === undefined ? undefined : [method].flat().map(String),
    contract,
  })
}

function desiredData({ entries }: ConfigMap): Readonly<Record<string, unknown>> {
  return Object.fromEntries([...entries].map(([key, { given }]) => [key, toData(given)]))
}

/** What a route of the configuration names its plug-in by: a path or URL. */
export function sourceOf(given: ConfigMap): string {
  return String(toData(given.entries.get('plugin')?.given ?? given))
}

/** What a change came to; those that were refused are told too. */
export interface ChangeRecord {
  /** When it was over, as ISO 8601. */
  readonly at: string
  /** What asked for it: `SIGHUP`, `files`, or what was asked of the admin API. */
  readonly reason: string
  /** Whether it is live. */
  readonly ok: boolean
  /** What is live now; it grows with each change. */
  readonly revision: number
  readonly ms: number
  /** Routes that are served now. */
  readonly routes: number
  /** Plug-ins of routes that kept their instances. */
  readonly kept: number
  /** What was left as it is, in words. */
  readonly warnings: readonly string[]
  /** Why it is not live. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** How many records are kept. */
const KEPT = 50

/** Records of changes, the newest first, and how many there were. */
export class ChangeLog {
  #records: readonly ChangeRecord[] = []
  #applied = 0
  #refused = 0

  add(record: ChangeRecord): void {
    this.#records = [record, ...this.#records].slice(0, KEPT)
    if (record.ok) this.#applied++
    else this.#refused++
  }

  get records(): readonly ChangeRecord[] {
    return this.#records
  }

  get applied(): number {
    return this.#applied
  }

  get refused(): number {
    return this.#refused
  }
}
