import type { FastifyBaseLogger } from 'fastify'
import type { CheckedLoadOptions } from '../options/options.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import { bytesOf, type ModuleBytes } from '../plugin/source/module-bytes.ts'
import type { SourceOptions } from '../plugin/source/source.ts'
import { type Configuration, type DesiredState, refuseEdit, refuseState } from './desired-state.ts'
import { type Edits, mainModuleOf, type Version } from './edits.ts'
import { PluginTable } from './loader.ts'
import { combineErrors, type Plan } from './plan.ts'
import { keepWhatStays, loadOptionsOf, type Resolved, resolve } from './resolve.ts'
import type { EditStore } from './state-folder.ts'

/** The first state, read and resolved. */
export interface FirstPlan extends Plan {
  readonly plugins: PluginTable
  /** Storage of edits; undefined if there is none. */
  readonly store: EditStore | undefined
  /** How remote sources are read. */
  sourceOptions(load: CheckedLoadOptions): SourceOptions
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
  /** The bytes of a module of its plug-ins, by digest. */
  module(digest: string): Promise<Uint8Array>
}

/** Resolves states one after another. What stays the same is neither validated nor loaded again. */
export class Resolver {
  readonly #source: Pick<FirstPlan, 'sourceOptions'>
  readonly #store: EditStore | undefined
  readonly #log: FastifyBaseLogger
  /** Options of the start, for settings that cannot change. */
  readonly #start: Resolved['options']
  #now: Resolved & { readonly desired: DesiredState }
  #plugins: PluginTable

  /** @param first - It is live. @param start - Options of the start. Default: those of the first state. */
  constructor(first: FirstPlan, log: FastifyBaseLogger, start = first.options) {
    this.#source = first
    this.#store = first.store
    this.#log = log
    this.#start = start
    this.#now = first
    this.#plugins = first.plugins
    logOrigins(first.routes, [], log)
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
      sources: this.#source.sourceOptions(isReread ? loadOptionsOf(configuration) : now.options),
      before: isReread ? undefined : now,
      failed: (error) => failures.push(error),
    })
    if (failures.length > 0) throw combineErrors(failures)
    const { options: current, warnings: waiting } = keepWhatStays(resolved.options, this.#start)
    const desired = { ...state, edits: resolved.edits }
    return { ...resolved, desired, current, waiting, plugins, module: moduleOf(plugins, this.#store) }
  }

  /** Makes a state the live one. */
  adopt(state: ResolvedState): void {
    const before = this.#now
    this.#now = state
    this.#plugins = state.plugins.settled()
    const { logLevel } = state.options
    if (logLevel !== before.options.logLevel) this.#log.level = logLevel // a program's own logger may have another level
    logOrigins(state.routes, before.routes, this.#log)
    void this.#forgetUnused(state)
  }

  /** Forgets plug-ins that the state does not use. Once another state is live, its plug-ins count. */
  async #forgetUnused(live: ResolvedState): Promise<void> {
    const used = await usedBy(live)
    await this.#plugins.removeUnless((digest) => used.has(digest) || this.#now !== live)
  }
}

/**
 * Logs the origin and signer of each version whose origin or signer is new. A reload reads all versions again; those that are as
 * before are not logged.
 *
 * @param before - The routes until now.
 */
function logOrigins(routes: Resolved['routes'], before: Resolved['routes'], log: FastifyBaseLogger): void {
  const known = new Set(originsOf(before).map((origin) => JSON.stringify(origin)))
  for (const origin of originsOf(routes)) {
    const key = JSON.stringify(origin)
    if (known.has(key)) continue
    known.add(key)
    log.info(origin, 'the origin of a plug-in')
  }
}

/** Origins of versions from a registry or with a signature. Allocates nothing for the others, which are most of thousands. */
function originsOf(routes: Resolved['routes']): object[] {
  const origins: object[] = []
  const add = (plugin: string, version: Version) => {
    const { digest, place: origin, signer, attestations } = mainModuleOf(version) ?? {}
    if (origin === undefined && signer === undefined) return
    origins.push({
      ...{ plugin, digest, origin, signer },
      attestations: attestations?.length ? attestations : undefined,
    })
  }
  for (const { target } of routes) {
    add(target.name, target.live)
    if (target.next) add(target.name, target.next.version)
  }
  return origins
}

/** Fetches the bytes of modules that were read, or stored before. */
export function moduleOf(
  { modules }: { readonly modules: ReadonlyMap<string, ModuleBytes> },
  store: EditStore | undefined,
): (digest: string) => Promise<Uint8Array> {
  const { module } = resolvedBy(store, false)
  return async (digest) => bytesOf(modules.get(digest) ?? (await module(digest)))
}

/** How stored versions are resolved, and the error when they cannot be. */
export function resolvedBy(store: EditStore | undefined, isEdit: boolean) {
  return {
    refuse: isEdit || !store ? refuseEdit : refuseState(store.place),
    module: (digest: string) =>
      store ? store.modules.get(digest) : Promise.reject(new Error(`module ${digest} was not stored`)),
  }
}

/** Digests of the versions that routes use, and of the configuration's versions. */
async function usedBy({ routes, desired }: Pick<ResolvedState, 'routes' | 'desired'>): Promise<Set<string>> {
  const pace = new EventLoopYielder()
  const used = new Set<string>()
  for (const { target } of routes) {
    used.add(target.live.digest)
    if (target.next) used.add(target.next.version.digest)
    await pace.step()
  }
  for (const { version } of desired.configuration.routes) {
    used.add(version.digest)
    await pace.step()
  }
  return used
}
