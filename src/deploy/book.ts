import { AdminForbiddenError, StateInvalidError } from '../errors/errors.ts'
import { fromData, type GivenMap, mapOf, mergeMaps, type Origin, toData } from '../options/given.ts'
import type { Merged } from '../options/merge.ts'
import type { LoadPlace } from '../plugin/compiled-modules.ts'
import { compilePlugin, type LoadOptions, type Plugin } from '../plugin/plugin.ts'
import { sha256 } from '../plugin/source/digest.ts'
import type { AllowedPath } from '../plugin/source/manifest.ts'
import type { Source } from '../plugin/source/source.ts'
import type { VersionedRoute } from '../route/open-routes.ts'
import {
  type Changes,
  NO_CHANGES,
  type PluginChange,
  routeId,
  trafficOf,
  type Version,
  versionOf,
  withoutPlugin,
  withPlugin,
  withRoute,
  withVersion,
} from './changes.ts'
import type { ChangeStore } from './state-folder.ts'

/** Makes other changes of those that there are. @throws why it cannot. */
export type Edit = (changes: Changes, merged: Merged) => Changes

/** A route of a plan. */
export interface BookedRoute {
  readonly given: GivenMap
  readonly plugin: Plugin
  readonly from: string
  readonly name: string
  readonly next?: VersionedRoute['next']
}

/** A change that is being made. */
export interface Proposal {
  /** Those that are to be served. */
  readonly routes: readonly BookedRoute[]
  readonly warnings: readonly string[]
  /** Keeps it, when it is about to go live. */
  commit(): Promise<void>
}

/** What a change is made of. */
export interface Proposed {
  /** What the plug-ins of the configuration were made from. */
  readonly sources: ReadonlyMap<Plugin, Source>
  readonly merged: Merged
  /** Default: nothing else is changed. */
  readonly edit?: Edit | undefined
  /** Bytes that the change brings along, by digest. */
  readonly modules?: ReadonlyMap<string, Uint8Array> | undefined
  /** Where versions are loaded, and until when. */
  readonly place?: LoadPlace | undefined
}

/** Plug-ins whose versions are kept for the case that the configuration has them again. */
const KEPT_GONE = 10

/** Where routes of the admin API come from, in messages. */
export const ADMIN: Origin = { kind: 'flag', name: 'admin API' }

/** What was changed by the admin API, and the versions of all plug-ins. */
export class Book {
  readonly #store: ChangeStore
  #changes: Changes = NO_CHANGES

  private constructor(store: ChangeStore, changes: Changes) {
    this.#store = store
    this.#changes = changes
  }

  /** @throws `StateInvalidError` */
  static async open(store: ChangeStore): Promise<Book> {
    return new Book(store, await store.read())
  }

  get changes(): Changes {
    return this.#changes
  }

  /**
   * Lays the changes over the routes of the configuration.
   *
   * @throws what the edit throws.
   */
  async propose(
    routes: readonly BookedRoute[],
    { sources, merged, edit, modules, place }: Proposed,
  ): Promise<Proposal> {
    const added = new Map(modules)
    const refuse = (what: string) =>
      edit
        ? new AdminForbiddenError(what)
        : new StateInvalidError(this.#store.place, `${what} can be set in the configuration only`)
    const changes = edit?.(this.#changes, merged) ?? this.#changes
    const making = new Making(changes, this.#store, added, refuse, place)
    return {
      routes: await making.overlay(routes, sources, merged),
      warnings: making.warnings,
      commit: async () => {
        await this.#store.write(making.changes, added)
        this.#changes = making.changes
      },
    }
  }
}

/** What a plug-in was made from, as a version of it, and the bytes of its modules. */
export function toVersion(
  { name, modules, settings }: Source,
  from: Version['from'],
): { version: Version; modules: ReadonlyMap<string, Uint8Array> } {
  const main = modules.find((module) => module.name === 'main')
  const isPlain = modules.length === 1 && settings === undefined
  const all = modules.map((module) => ({
    name: module.name,
    digest: module.digest,
    bytes: module.bytes.length,
  }))
  const digest = isPlain && main ? main.digest : sha256(JSON.stringify([all, settings]))
  return {
    version: { digest, name, from, addedAt: new Date().toISOString(), modules: all, settings },
    modules: new Map(modules.map((module) => [module.digest, module.bytes])),
  }
}

/** One run of {@link Book.propose}. */
class Making {
  readonly warnings: string[] = []
  changes: Changes
  readonly #store: ChangeStore
  readonly #added: Map<string, Uint8Array>
  readonly #refuse: (what: string) => Error
  readonly #place: LoadPlace
  /** By name of the plug-in: what its manifest in the configuration opens now. */
  readonly #folders = new Map<string, readonly AllowedPath[]>()
  /** How the server was told to load. */
  #loading: GivenMap | undefined

  /** @param refuse - Makes the error for what only the configuration may say. */
  constructor(
    changes: Changes,
    store: ChangeStore,
    added: Map<string, Uint8Array>,
    refuse: (what: string) => Error,
    place: LoadPlace = {},
  ) {
    this.changes = changes
    this.#store = store
    this.#added = added
    this.#refuse = refuse
    this.#place = place
  }

  async overlay(
    routes: readonly BookedRoute[],
    sources: ReadonlyMap<Plugin, Source>,
    merged: Merged,
  ): Promise<BookedRoute[]> {
    this.#loading = merged.load
    this.#takeVersions(routes, sources)
    const known = routes.map((route) => [idOf(route.given), route] as const) // those that meet are refused later
    const ids = new Set(known.map(([id]) => id))
    const kept = await Promise.all(
      known.map(async ([id, route]) => {
        const change = this.changes.routes.get(id)
        if (!change) return this.#versions(route)
        return change.options ? this.#put(id, change.options, merged) : []
      }),
    )
    const more = [...this.changes.routes].filter(([id]) => !ids.has(id))
    // That a route is gone need not be known where there is none.
    for (const [id, { options }] of more) if (!options) this.changes = withRoute(this.changes, id, undefined)
    const added = await Promise.all(
      more.map(([id, { options }]) => (options ? this.#put(id, options, merged) : [])),
    )
    return [...kept, ...added].flat()
  }

  /** Those that the configuration has now. One that it did not have when calls were given to another wins. */
  #takeVersions(routes: readonly BookedRoute[], sources: ReadonlyMap<Plugin, Source>): void {
    const found = new Set<string>()
    for (const { name, plugin } of routes) {
      const source = sources.get(plugin)
      if (!source || found.has(name)) continue
      found.add(name)
      this.#folders.set(name, source.settings?.allowedPaths ?? [])
      this.#takeVersion(name, source)
    }
    for (const [name, plugin] of this.changes.plugins) {
      if (plugin.added || found.has(name)) continue
      const { traffic } = plugin
      if (traffic.length > 0) this.warnings.push(`plug-in ${name} is not in the configuration any more`)
      this.changes = withPlugin(this.changes, name, { ...plugin, over: undefined })
    }
    const gone = [...this.changes.plugins].filter(
      ([name, { added, traffic }]) => !added && traffic.length === 0 && !found.has(name),
    )
    for (const [name] of gone.slice(0, -KEPT_GONE)) this.changes = withoutPlugin(this.changes, name)
  }

  #takeVersion(name: string, source: Source): void {
    const { version, modules } = toVersion(source, 'file')
    const before = this.changes.plugins.get(name) ?? { added: false, versions: [], traffic: [] }
    const isNew = before.over !== version.digest
    if (isNew && before.traffic.length > 0 && before.over !== undefined) {
      this.warnings.push(`plug-in ${name} has changed in the configuration, which wins over the admin API`)
    }
    if (before.versions.some(({ digest }) => digest === version.digest) && !isNew) return
    for (const [digest, bytes] of modules) this.#added.set(digest, bytes)
    const traffic = isNew ? [] : before.traffic
    const plugin = withVersion({ ...before, added: false, traffic, over: version.digest }, version)
    this.changes = withPlugin(this.changes, name, plugin)
  }

  /** A route of the configuration, with the versions that get its calls. */
  async #versions(route: BookedRoute): Promise<BookedRoute[]> {
    const change = this.changes.plugins.get(route.name)
    if (!change || change.traffic.length === 0) return [route]
    return [{ ...route, ...(await this.#load(route.name, change, route.given)) }]
  }

  /** A route of the admin API. Of a plug-in that is gone, it is left out: the others are to start all the same. */
  async #put(id: string, options: object, merged: Merged): Promise<BookedRoute[]> {
    const { plugin: name } = options as { readonly plugin: string }
    const change = this.changes.plugins.get(name)
    if (!change || trafficOf(change).length === 0) {
      this.warnings.push(`route ${id} was left out: its plug-in ${name} is gone`)
      return []
    }
    const given = givenOf(options, merged)
    this.#refuseEngine(id, options, merged)
    return [{ given, name, from: 'admin API', ...(await this.#load(name, change, given)) }]
  }

  async #load(
    name: string,
    change: PluginChange,
    given: GivenMap,
  ): Promise<Pick<BookedRoute, 'plugin' | 'next'>> {
    const [live, second] = trafficOf(change)
    const compile = (digest: string) => {
      const version = versionOf(change, digest)
      this.#refuseFolders(name, version)
      return this.#compile(version, given)
    }
    const plugin = await compile(live?.digest ?? '')
    if (!second) return { plugin }
    return { plugin, next: { plugin: await compile(second.digest), percent: second.percent } }
  }

  /** Guests that the configuration keeps in processes stay there. */
  #refuseEngine(id: string, options: { readonly engine?: unknown }, merged: Merged): void {
    const { engine, ...others } = options
    const { engine: configured } = toData(givenOf(others, merged)) as { readonly engine?: unknown }
    if (configured === 'subprocess' && engine !== undefined && engine !== configured)
      throw this.#refuse(`The engine of route ${id}, which is subprocess in the configuration,`)
  }

  /** A version of a manifest that the configuration had earlier opens what that opens now, and nothing else. */
  #refuseFolders(plugin: string, { digest, settings }: Version): void {
    const open = this.#folders.get(plugin) ?? []
    const beyond = settings?.allowedPaths.find(
      ({ host, guest, readOnly }) =>
        !open.some((each) => each.host === host && each.guest === guest && (readOnly || !each.readOnly)),
    )
    if (beyond)
      throw this.#refuse(
        `The folder ${beyond.host} (allowedPaths) of version ${digest.slice(0, 12)} of plug-in ${plugin}`,
      )
  }

  /** Checked already: the routes of the configuration were loaded by it. */
  #moduleOptions(): Pick<LoadOptions, 'moduleLimits' | 'allowGc'> {
    const { moduleLimits, allowGc } = (this.#loading ? toData(this.#loading) : {}) as LoadOptions
    return { moduleLimits, allowGc }
  }

  async #compile({ name, modules, settings }: Version, given: GivenMap): Promise<Plugin> {
    const { memoryMax, isolation, engine } = toData(given) as Pick<
      VersionedRoute,
      'memoryMax' | 'isolation' | 'engine'
    >
    const read = modules.map(async ({ name, digest }) => {
      return { name, digest, bytes: this.#added.get(digest) ?? (await this.#store.modules.get(digest)) }
    })
    const source = { name, modules: await Promise.all(read), settings, warnings: [] }
    return compilePlugin(source, {
      ...this.#place,
      memoryMax: typeof memoryMax === 'number' ? memoryMax : undefined, // another is refused by the check that follows
      isolation,
      ...this.#moduleOptions(),
      compiles: engine !== 'subprocess',
    })
  }
}

/**
 * Options of a route of the admin API with the place that the defaults of the configuration give it: there it stays,
 * whatever becomes of these.
 */
export function withPlace<Options extends object>(options: Options, merged: Merged): Options {
  const { url = '/', method, host, contract } = toData(givenOf(options, merged)) as Record<string, unknown>
  const place = { url, method: method ?? (contract === 'simplism' ? '*' : 'POST') }
  return { ...options, ...place, ...(host !== undefined && { host }) }
}

/** The options of a route of the admin API, over those of its plug-in in the configuration, or of all there. */
function givenOf(options: object, merged: Merged): GivenMap {
  const { plugin } = options as { readonly plugin: string }
  const own = fromData(options, ADMIN) as GivenMap
  return mergeMaps(mapOf([], ADMIN), merged.plugins.get(plugin) ?? merged.route, own)
}

/** Of a route that is not checked yet. It is asked for again and again. */
export function idOf(given: GivenMap): string {
  const id = ids.get(given) ?? idOfOptions(toData(given) as object)
  ids.set(given, id)
  return id
}

const ids = new WeakMap<GivenMap, string>()

/** The same of plain options. */
export function idOfOptions(options: object): string {
  const { url = '/', host, method, contract } = options as Record<string, unknown>
  return routeId({
    url: String(url),
    host: host === undefined ? undefined : String(host),
    method: method === undefined ? undefined : [method].flat().map(String),
    contract,
  })
}
