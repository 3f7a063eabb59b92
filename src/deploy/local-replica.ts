import { setMaxListeners } from 'node:events'
import { memoryUsage } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { ChangeRefusedError } from '../errors/errors.ts'
import { errorFields } from '../errors/failure.ts'
import type { Meters } from '../observe/metrics.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { nextTurn } from '../platform/event-loop.ts'
import { type RateCounter, RateCounts } from '../platform/rate-counts.ts'
import { explainLimit } from '../platform/system-errors.ts'
import type { VersionedRoute } from '../route/open-routes.ts'
import { RoutePool } from '../route/route-pool.ts'
import { createApp, type KeptStreams } from '../server/app.ts'
import type { RunningServer } from '../server/server.ts'
import type { Staleness } from '../server/stale.ts'
import {
  countsOf,
  type OwnReplica,
  type ReplicaStatus,
  type ResolvedRoutes,
  type ServedState,
} from './replica.ts'
import { type FirstPlan, keepWhatStays, type Resolved, Resolver, type StateChange } from './resolve.ts'

/** How a replica of this process opens its routes. */
interface LocalParts {
  readonly log: FastifyBaseLogger
  readonly meters?: Meters | undefined
  /** The revision of the first state. Default: 1. */
  readonly revision?: number | undefined
  /** The options that a reload cannot change have these values. Default: those of the first state. */
  readonly start?: Resolved['options'] | undefined
  /** Adapts the options of a route. The same object must have the same result. Default: unchanged. */
  adapt?(route: VersionedRoute): VersionedRoute
  /** Counts for the rate limits. Default: this process counts for itself. */
  readonly counter?: RateCounter | undefined
  /** Whether routes are opened without their store, if it cannot be reached. */
  readonly storeMayBeAway?: boolean
  /** Routes answer why their plug-ins are older than their sources. Default: they do not. */
  readonly staleness?: Staleness | undefined
  /** What the MCP endpoints of successive apps share. Default: nothing that other processes know. */
  readonly streams?: KeptStreams | undefined
}

/** A replica in this process. */
export interface LocalReplica extends OwnReplica {
  follow(server: Pick<RunningServer, 'replace'>): void
  /** Accepts no change any more, and aborts the one that is prepared. */
  refuse(): void
}

/** How long the end waits for a state that is being prepared. */
const PREPARED_END_MS = 500

/** Opens an app with the instances of routes that stay the same. */
type OpenApp = (options: Resolved['options'], signal?: AbortSignal) => ReturnType<typeof createApp>

/** Serves the first state. @throws the reason that it cannot be served. */
export async function openLocalReplica(first: FirstPlan, parts: LocalParts): Promise<LocalReplica> {
  const { log, meters, adapt, storeMayBeAway, staleness, counter = new RateCounts(), streams = {} } = parts
  const { options } = keepWhatStays(first.options, parts.start ?? first.options)
  const pool = new RoutePool({ ...options, meters, storeMayBeAway }, log)
  const shared = { pool, keys: {}, counter, streams, staleness }
  const open: OpenApp = (options, signal) => {
    const routes = adapt ? options.routes.map(adapt) : options.routes
    return createApp({ ...options, routes, meters, signal }, log, shared)
  }
  try {
    const opened = await open(options)
    return new PooledReplica(new Resolver(first, log, parts.start), open, pool, parts, opened)
  } catch (error) {
    await pool.close()
    throw error
  }
}

/** Open routes. */
interface OpenedState {
  readonly app: FastifyInstance
  readonly routes: readonly ServedRoute[]
}

/** A change that is neither committed nor aborted. */
interface PendingState {
  readonly revision: number
  readonly ended: AbortController
  readonly opening: Promise<OpenedState & ResolvedRoutes>
  opened?: OpenedState & ResolvedRoutes
}

class PooledReplica implements LocalReplica {
  readonly compiles = true
  app: FastifyInstance
  routes: readonly ServedRoute[]
  readonly #resolver: Resolver
  readonly #openApp: OpenApp
  readonly #pool: RoutePool
  readonly #log: FastifyBaseLogger
  readonly #closed = new AbortController()
  #revision: number
  #pending: PendingState | undefined
  #server: Pick<RunningServer, 'replace'> | undefined
  #memoryBytes = 0

  constructor(
    resolver: Resolver,
    openApp: OpenApp,
    pool: RoutePool,
    { log, revision = 1 }: LocalParts,
    { app, routes }: OpenedState,
  ) {
    this.app = app
    this.routes = routes
    this.#resolver = resolver
    this.#openApp = openApp
    this.#pool = pool
    this.#log = log
    this.#revision = revision
    setMaxListeners(0, this.#closed.signal)
  }

  follow(server: Pick<RunningServer, 'replace'>): void {
    this.#server = server
  }

  async prepare(
    state: ServedState & StateChange,
    _reason: string,
    asked?: AbortSignal,
  ): Promise<ResolvedRoutes> {
    const { revision } = state
    while (this.#pending) await this.#drop(new ChangeRefusedError('a newer change was requested'))
    if (revision <= this.#revision)
      throw new ChangeRefusedError(`revision ${revision} is not newer than ${this.#revision}, which is live`)
    const ended = new AbortController()
    const signal = AbortSignal.any([this.#closed.signal, ended.signal, ...(asked ? [asked] : [])])
    setMaxListeners(0, signal) // each plug-in and each trial instance listens to it
    const pending: PendingState = { revision, ended, opening: this.#open(state, signal) }
    this.#pending = pending
    try {
      pending.opened = await pending.opening
      return pending.opened
    } catch (error) {
      if (this.#pending === pending) this.#pending = undefined
      throw error
    }
  }

  async commit(revision: number): Promise<void> {
    const opened = this.#pending?.revision === revision ? this.#pending.opened : undefined
    if (!opened) throw new ChangeRefusedError(`revision ${revision} is not prepared`)
    const { app, routes, resolved } = opened
    this.#pending = undefined
    this.#revision = revision
    this.app = app
    this.routes = routes
    this.#resolver.adopt(resolved)
    // Requests in flight may take long: do not wait for the old app to close.
    this.#server
      ?.replace(app)
      .catch((error) => this.#log.error(errorFields(error), 'the replaced deployment failed to close'))
  }

  async abort(revision: number): Promise<void> {
    if (this.#pending?.revision === revision) await this.#drop(new ChangeRefusedError('it was aborted'))
  }

  async status(): Promise<ReplicaStatus> {
    return {
      revision: this.#revision,
      prepared: this.#pending?.opened && this.#pending.revision,
      memoryBytes: this.#readMemory(),
      ...countsOf(this.routes),
    }
  }

  refuse(): void {
    const reason = new ChangeRefusedError('the server is shutting down')
    this.#closed.abort(reason)
    this.#drop(reason).catch((error) =>
      this.#log.error(errorFields(error), 'a prepared deployment failed to close'),
    )
  }

  async close(): Promise<void> {
    const dropped = this.#drop(new ChangeRefusedError('the server is shutting down'))
    await Promise.race([dropped, sleep(PREPARED_END_MS, undefined, { ref: false })])
    await this.#pool.close() // only after all apps have closed
  }

  async #open(state: StateChange, signal: AbortSignal): Promise<OpenedState & ResolvedRoutes> {
    signal.throwIfAborted()
    const resolved = await this.#resolver.resolve(state, signal)
    await nextTurn()
    const opened = await this.#openApp({ ...resolved.current, trial: true }, signal)
    if (signal.aborted) await opened.app.close()
    signal.throwIfAborted()
    return { ...opened, resolved }
  }

  async #drop(reason: Error): Promise<void> {
    const pending = this.#pending
    this.#pending = undefined
    if (!pending) return
    pending.ended.abort(reason)
    const opened = await pending.opening.catch(() => undefined) // who prepares it gets the error
    await opened?.app.close()
  }

  /** Returns the last size if there is no free descriptor to read it. */
  #readMemory(): number {
    try {
      this.#memoryBytes = memoryUsage.rss()
    } catch (error) {
      if (explainLimit(error) === undefined) throw error
    }
    return this.#memoryBytes
  }
}
