import type { FastifyBaseLogger } from 'fastify'
import { EventLoopYielder } from '../platform/event-loop.ts'
import { bytesOf, type ModuleBytes } from '../plugin/source/module-bytes.ts'
import type { ConfigurationSource } from './configuration.ts'
import { type Configuration, type DesiredState, refuseEdit, refuseState } from './desired-state.ts'
import { type Edits, mainModuleOf, type Version } from './edits.ts'
import { PluginTable } from './loader.ts'
import { combineErrors, type Plan } from './plan.ts'
import { keepWhatStays, type Resolved, resolve } from './resolve.ts'
import type { EditStore } from './state-folder.ts'

/** The first state, read and resolved. */
export interface FirstPlan extends Plan {
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
      this.#logOrigin(target.name, target.live, before)
      if (target.next) this.#logOrigin(target.name, target.next.version, before)
    }
  }

  /** Most versions are neither from a registry nor signed. */
  #logOrigin(plugin: string, version: Version, before: ReadonlySet<string>): void {
    const { digest, place: origin, signer, attestations } = mainModuleOf(version) ?? {}
    if (origin === undefined && signer === undefined) return
    const fields = {
      ...{ plugin, digest, origin, signer },
      attestations: attestations?.length ? attestations : undefined,
    }
    const key = JSON.stringify(fields)
    if (this.#origins.has(key)) return
    this.#origins.add(key)
    if (!before.has(key)) this.#log.info(fields, 'the origin of a plug-in')
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
