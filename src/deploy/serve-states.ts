import { memoryUsage } from 'node:process'
import { ChangeRefusedError } from '../errors/errors.ts'
import type { CheckedLoadOptions } from '../options/options.ts'
import { RouteFacts, type ServedRoute } from '../options/served-route.ts'
import { explainLimit } from '../platform/system-errors.ts'
import type { SourceOptions } from '../plugin/source/source.ts'
import type { ConfigurationSource } from './configuration.ts'
import type { Deployments, Prepared, Surroundings } from './deployments.ts'
import type { Configuration } from './desired-state.ts'
import type { Resolved } from './resolve.ts'
import type { PreparedRoutes, ServedState, ServingSide, ServingStatus } from './serving-side.ts'
import { openDeployments } from './start.ts'
import type { EditStore } from './state-folder.ts'

/** How states of a control side are served. */
export interface ServedBy {
  /** Fetches the bytes of a module by its digest. */
  module(digest: string): Promise<Uint8Array>
  /** See {@link openDeployments}. */
  begin(options: Resolved['options']): Surroundings | Promise<Surroundings>
  /** See `ConfigurationSource`. Default: the control side has verified the plug-ins. */
  sourceOptions?(load: CheckedLoadOptions): SourceOptions
  /** The configuration for a reload. Default: that of the state. */
  reread?(): Promise<Configuration>
  /** Called before a change goes live, with the bytes of its new modules. Default: the control side has persisted it. */
  persist?: EditStore['write']
}

/**
 * Opens deployments that serve a state of a control side, and read no configuration of their own.
 *
 * @throws the reason that the state cannot be served.
 */
export function openServed(
  { configuration, edits }: Pick<ServedState, 'configuration' | 'edits'>,
  { module, begin, sourceOptions = () => ({}), reread, persist = async () => undefined }: ServedBy,
): Promise<Deployments> {
  let isFirst = true
  const source: ConfigurationSource = {
    listsProblems: false,
    sourceOptions,
    async read({ plugins }) {
      const read = isFirst || !reread ? configuration : await reread()
      isFirst = false
      plugins.expected = read.routes.length
      return read
    },
  }
  const store: EditStore = {
    place: 'of the control side',
    modules: { get: module, put: async () => undefined, keep: async () => undefined },
    read: async () => edits,
    write: persist,
  }
  return openDeployments(source, begin, async () => store)
}

/**
 * Serves by deployments, which have no other source of changes.
 *
 * @param revision - The control side's revision of their first state.
 */
export function serveBy(deployments: Deployments, revision: number): ServingSide {
  return new LocalSide(deployments, revision)
}

class LocalSide implements ServingSide {
  readonly #deployments: Deployments
  #revision: number
  #pending: Pending | undefined
  #memoryBytes = 0

  constructor(deployments: Deployments, revision: number) {
    this.#deployments = deployments
    this.#revision = revision
  }

  async prepare(
    { revision, configuration, edits }: ServedState,
    reason: string,
    asked?: AbortSignal,
  ): Promise<PreparedRoutes> {
    if (revision <= this.#revision)
      throw new ChangeRefusedError(`revision ${revision} is not newer than ${this.#revision}, which is live`)
    await this.#drop(new ChangeRefusedError('a newer change was requested'))
    const pending: Pending = { revision, ended: new AbortController() }
    this.#pending = pending
    const signal = asked ? AbortSignal.any([pending.ended.signal, asked]) : pending.ended.signal
    try {
      const make = (now: { revision: number }) => ({
        revision: now.revision,
        configuration,
        edits,
        warnings: [],
      })
      pending.prepared = await this.#deployments.prepare(make, reason, { signal })
      const { routes, kept } = pending.prepared
      return { routes: routes.map(viewOf), kept }
    } catch (error) {
      if (this.#pending === pending) this.#pending = undefined
      throw error
    }
  }

  async commit(revision: number): Promise<void> {
    const pending = this.#pending
    if (pending?.revision !== revision || !pending.prepared)
      throw new ChangeRefusedError(`revision ${revision} is not prepared`)
    this.#pending = undefined
    await pending.prepared.commit()
    this.#revision = revision
  }

  async abort(revision: number): Promise<void> {
    if (this.#pending?.revision === revision) await this.#drop(new ChangeRefusedError('it was aborted'))
  }

  async status(): Promise<ServingStatus> {
    const { served } = this.#deployments.current
    return {
      revision: this.#revision,
      prepared: this.#pending?.prepared && this.#pending.revision,
      memoryBytes: this.#readMemory(),
      troubles: served.flatMap(({ trouble }, index) =>
        trouble === undefined ? [] : [[index, trouble] as const],
      ),
      splits: served.flatMap(({ split }, index) => {
        if (!split) return []
        const [live, next] = split.counts
        return [[index, [{ ...live }, { ...next }]] as const]
      }),
    }
  }

  /** Without a free descriptor it cannot be read, and is as it was. */
  #readMemory(): number {
    try {
      this.#memoryBytes = memoryUsage.rss()
    } catch (error) {
      if (explainLimit(error) === undefined) throw error
    }
    return this.#memoryBytes
  }

  async #drop(reason: Error): Promise<void> {
    const pending = this.#pending
    this.#pending = undefined
    pending?.ended.abort(reason)
    await pending?.prepared?.abort()
  }
}

interface Pending {
  readonly revision: number
  readonly ended: AbortController
  prepared?: Prepared
}

/** A served route as data. */
export function viewOf(route: ServedRoute): ServedRoute {
  const { trouble, split } = route
  return { ...new RouteFacts(route), trouble, split }
}
