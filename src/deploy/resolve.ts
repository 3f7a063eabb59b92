import { isDeepStrictEqual } from 'node:util'
import type { FastifyBaseLogger } from 'fastify'
import { CheckFailedError } from '../errors/errors.ts'
import { hasOwnCode, messageWithCode } from '../errors/failure.ts'
import { atLocation } from '../options/check-config.ts'
import { toData } from '../options/config-node.ts'
import { RESTART_OPTIONS } from '../options/facts.ts'
import { type CheckedLoadOptions, type CheckedServerOptions, checkLoadOptions } from '../options/options.ts'
import { ANY_ROUTE } from '../options/resolved-route.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import { noteReadAgain } from '../plugin/plugin.ts'
import { bytesOf, type ModuleBytes } from '../plugin/source/module-bytes.ts'
import type { SourceOptions } from '../plugin/source/source.ts'
import type { VersionedRoute } from '../route/open-routes.ts'
import type { ConfigurationSource } from './configuration.ts'
import {
  type Configuration,
  type DesiredState,
  overlay,
  type Refuse,
  type RouteTarget,
  refuseEdit,
  refuseState,
} from './desired-state.ts'
import { type Edits, mainModuleOf, type Version } from './edits.ts'
import { type Loading, loadVersion, PluginTable } from './loader.ts'
import { type ResolvedTarget, reportConflicts, resolveNew } from './new-routes.ts'
import type { EditStore } from './state-folder.ts'

/** The routes to serve with everything loaded. Nothing is open yet. */
export interface Resolved {
  readonly options: CheckedServerOptions & CheckedLoadOptions & { readonly routes: VersionedRoute[] }
  /** The routes in the order of the options. */
  readonly routes: readonly ResolvedTarget[]
  /** How remote sources are read, and stored modules verified: the same for all changes of a configuration. */
  readonly sources: SourceOptions
  /** The edits in effect. */
  readonly edits: Edits
  /** Skipped items, as text. */
  readonly warnings: readonly string[]
}

/** The context for resolving a desired state. */
export interface Resolving extends Omit<Loading, 'load' | 'sources'> {
  /** The current deployment with the same configuration: routes with the same options are not validated again. */
  readonly before?: (Resolved & { readonly desired: DesiredState }) | undefined
  /** The routes that are served now, with any configuration. */
  readonly live?: readonly ResolvedTarget[]
  /** The source of the configuration. */
  readonly source: Pick<ConfigurationSource, 'sourceOptions'>
  /** @see {@link overlay} */
  readonly refuse: Refuse
  /** Called with each problem of a route; the others are still checked. */
  failed(error: unknown): void
}

/**
 * Resolves a state: routes that have not changed stay the same objects, and the others are validated and loaded.
 *
 * @throws the errors of option validation, plug-in loading and {@link overlay}.
 */
export async function resolve(desired: DesiredState, resolving: Resolving): Promise<Resolved> {
  const { configuration } = desired
  const { before, live = [], refuse, failed } = resolving
  const { targets, edits, warnings } = await overlay(desired, refuse)
  const load = before?.options ?? loadOptionsOf(configuration)
  const sources = before?.sources ?? resolving.source.sourceOptions(load)
  const loading: Loading = { ...resolving, load, sources }
  const pace = new EventLoopYielder()
  const same = new Map(before?.routes.map((route) => [route.target.configured, route]))
  await pace.step()
  const kept = new Map<RouteTarget, ResolvedTarget>()
  for (const target of targets) {
    const route = same.get(target.configured)
    if (route && isSame(route.target, target)) kept.set(target, route)
    await pace.step()
  }
  const fresh = targets.filter((target) => !kept.has(target))
  const known = before?.options ?? configuration.checked
  const isReread = before === undefined
  const { made, server } =
    known && fresh.length === 0
      ? { made: kept, server: known }
      : await resolveNew(fresh, configuration, { ...loading, known, isReread, live, failed })
  const routes = targets.flatMap((target) => kept.get(target) ?? made.get(target) ?? [])
  await pace.step()
  if (before) await tryUnused(edits, before, routes, loading)
  if (fresh.length > 0) await reportConflicts(routes, [...made.values()], configuration, server, failed)
  const options = { ...server, ...load, routes: routes.map(({ options }) => options) }
  return { options, routes, sources, edits, warnings }
}

/** The options of a configuration for loading plug-ins. @throws `OptionsError` */
export function loadOptionsOf({ load }: Pick<DesiredState['configuration'], 'load'>): CheckedLoadOptions {
  return atLocation(load, () => checkLoadOptions(toData(load)))
}

function isSame(one: RouteTarget, other: RouteTarget): boolean {
  return (
    one.name === other.name &&
    one.live.digest === other.live.digest &&
    one.next?.version.digest === other.next?.version.digest &&
    one.next?.percent === other.next?.percent
  )
}

/** Loads a new version that no route uses yet, to make sure that it can be loaded later. */
async function tryUnused(
  { plugins }: Edits,
  before: { readonly desired: DesiredState },
  routes: readonly ResolvedTarget[],
  loading: Loading,
): Promise<void> {
  const pace = new EventLoopYielder()
  for (const [name, { versions }] of plugins) {
    await pace.step()
    const known = before.desired.edits.plugins.get(name)?.versions
    if (versions === known) continue
    const isUsed = ({ digest }: Version) =>
      routes.some(({ target }) => target.live.digest === digest || target.next?.version.digest === digest)
    for (const version of versions) {
      if (known?.some(({ digest }) => digest === version.digest) || isUsed(version)) continue
      await loadVersion(name, version, ANY_ROUTE, loading)
    }
  }
}

/** The first state, read and resolved. */
export interface FirstPlan extends Resolved {
  readonly desired: DesiredState
  readonly plugins: PluginTable
  /** Storage of edits; undefined if there is none. */
  readonly store: EditStore | undefined
  readonly source: ConfigurationSource
}

/** A state to resolve. */
export interface StateChange {
  readonly configuration: Configuration
  readonly edits: Edits
  /** Plug-ins that were loaded when the configuration was read. */
  readonly plugins?: PluginTable | undefined
  /** Bytes of new modules, by digest. */
  readonly modules?: ReadonlyMap<string, Uint8Array> | undefined
  /** Whether an edit requests it: then a forbidden option is the edit's fault, else the state folder's. */
  readonly isEdit?: boolean | undefined
}

export interface ResolvedState extends Resolved {
  readonly desired: DesiredState
  /** The options, with the start's values for those that cannot change. */
  readonly current: Resolved['options']
  /** Names the options that wait for the next start, as text. */
  readonly waiting: readonly string[]
  readonly plugins: PluginTable
}

/** Resolves states one after another. What stays the same is neither validated nor loaded again. */
export class Resolver {
  readonly #source: ConfigurationSource
  readonly #store: EditStore | undefined
  readonly #log: FastifyBaseLogger
  /** Options of the start, for settings that cannot change. */
  readonly #start: Resolved['options']
  #now: Resolved & { readonly desired: DesiredState }
  #plugins: PluginTable
  /** The origins and signers of the live state, as text. */
  #origins = new Set<string>()

  /** @param first - It is live. @param start - Options of the start. Default: those of the first state. */
  constructor(first: FirstPlan, log: FastifyBaseLogger, start = first.options) {
    this.#source = first.source
    this.#store = first.store
    this.#log = log
    this.#start = start
    this.#now = first
    this.#plugins = first.plugins
    this.#logOrigins(first.routes)
  }

  /** @throws the problems of the state, together; the reason of the signal. */
  async resolve(
    { configuration, edits, plugins = new PluginTable(this.#plugins), modules, isEdit = false }: StateChange,
    signal?: AbortSignal,
  ): Promise<ResolvedState> {
    const now = this.#now
    for (const [digest, bytes] of modules ?? []) plugins.modules.set(digest, bytes)
    const isReread = configuration !== now.desired.configuration
    const failures: unknown[] = []
    const state = { revision: 0, configuration, edits, warnings: [] }
    const resolved = await resolve(state, {
      ...{ isServing: true, signal, log: this.#log, plugins, live: now.routes },
      ...resolvedBy(this.#store, isEdit),
      source: this.#source,
      before: isReread ? undefined : now,
      failed: (error) => failures.push(error),
    })
    if (failures.length > 0) throw combineErrors(failures)
    const { options: current, warnings: waiting } = keepWhatStays(resolved.options, this.#start)
    const desired = { ...state, edits: resolved.edits }
    return { ...resolved, desired, current, waiting, plugins }
  }

  /** Makes a state the live one. */
  adopt(state: ResolvedState): void {
    const before = this.#now
    this.#now = state
    this.#plugins = state.plugins.settled()
    const { logLevel } = state.options
    if (logLevel !== before.options.logLevel) this.#log.level = logLevel // a program's own logger may have another level
    this.#logOrigins(state.routes)
    for (const { options, plugin, again: [live, next] = [] } of state.routes) {
      if (live) noteReadAgain(plugin, live)
      if (next && options.next) noteReadAgain(options.next.plugin, next)
    }
    void this.#forgetUnused(state)
  }

  /** Forgets plug-ins that neither routes use nor the configuration has. Once another state is live, its plug-ins count. */
  async #forgetUnused(live: ResolvedState): Promise<void> {
    const pace = new EventLoopYielder()
    const used = new Set<string>()
    for (const { target } of live.routes) {
      used.add(target.live.digest)
      if (target.next) used.add(target.next.version.digest)
      await pace.step()
    }
    for (const { version } of live.desired.configuration.routes) {
      used.add(version.digest)
      await pace.step()
    }
    await this.#plugins.removeUnless((digest) => used.has(digest) || this.#now !== live)
  }

  /** Logs origins and signers that the state before did not have: a reload reads all versions again. */
  #logOrigins(routes: Resolved['routes']): void {
    const before = this.#origins
    this.#origins = new Set()
    for (const { target } of routes) {
      const { name: plugin, live, next } = target
      for (const version of next ? [live, next.version] : [live]) {
        const { digest, place: origin, signer, attestations } = mainModuleOf(version) ?? {}
        if (origin === undefined && signer === undefined) continue // most versions
        const fields = {
          ...{ plugin, digest, origin, signer },
          attestations: attestations?.length ? attestations : undefined,
        }
        const key = JSON.stringify(fields)
        if (!before.has(key) && !this.#origins.has(key)) this.#log.info(fields, 'the origin of a plug-in')
        this.#origins.add(key)
      }
    }
  }
}

/** Fetches the bytes of modules that were read, or stored before. */
export function moduleOf(
  { modules }: { readonly modules: ReadonlyMap<string, ModuleBytes> },
  store: EditStore | undefined,
): (digest: string) => Promise<Uint8Array> {
  return async (digest) => bytesOf(modules.get(digest) ?? (await storedModule(store, digest)))
}

/** How stored versions are resolved, and the error when they cannot be. */
export function resolvedBy(store: EditStore | undefined, isEdit: boolean) {
  return {
    refuse: isEdit || !store ? refuseEdit : refuseState(store.place),
    module: (digest: string) => storedModule(store, digest),
  }
}

async function storedModule(store: EditStore | undefined, digest: string): Promise<Uint8Array> {
  if (!store) throw new Error(`module ${digest} was not stored`)
  return store.modules.get(digest)
}

/** A reload's options, with the start's values for those that cannot change; warnings name the pending ones. */
export function keepWhatStays<Options extends CheckedServerOptions & CheckedLoadOptions>(
  wanted: Options,
  atStart: CheckedServerOptions & CheckedLoadOptions,
): { options: Options; warnings: readonly string[] } {
  const [now, then] = [wanted, atStart].map((options) => new Map<string, unknown>(Object.entries(options)))
  const waiting = [...RESTART_OPTIONS].filter((name) => !isDeepStrictEqual(now?.get(name), then?.get(name)))
  const options = { ...wanted, ...Object.fromEntries(waiting.map((name) => [name, then?.get(name)])) }
  const warning = `changed options that take effect at the next start: ${waiting.join(', ')}`
  return { options, warnings: waiting.length === 0 ? [] : [warning] }
}

/** A single failure unchanged; several as a list of messages. */
export function combineErrors(failures: readonly unknown[]): unknown {
  const list = listOf(failures)
  if (failures.every((failure) => planMessage(failure) === list)) return failures[0]
  return new CheckFailedError(list, { cause: new AggregateError(failures) })
}

/** Lists the messages of failures without duplicates. @throws errors without a code, which are bugs. */
export function listOf(failures: readonly unknown[]): string {
  return [...new Set(failures.map(planMessage))].join('\n')
}

function planMessage(error: unknown): string {
  if (hasOwnCode(error)) return messageWithCode(error)
  throw error
}
