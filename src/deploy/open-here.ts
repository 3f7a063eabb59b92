import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Meters } from '../observe/metrics.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { type RateCounter, RateCounts } from '../platform/rate-counts.ts'
import type { VersionedRoute } from '../route/open-routes.ts'
import { RoutePool } from '../route/route-pool.ts'
import { createApp, type KeptStreams } from '../server/app.ts'
import type { JwtKeyCache } from '../server/edge/jwt.ts'
import { readTls, type TlsSettings } from '../server/tls.ts'
import type { DesiredState } from './desired-state.ts'
import type { Resolved } from './resolve.ts'

/** The routes to open. */
export interface OpenablePlan extends Pick<Resolved, 'options' | 'routes' | 'edits'> {
  readonly desired: DesiredState
  /** The bytes of a module of its plug-ins, by digest. */
  module(digest: string): Promise<Uint8Array>
}

/** Opens the routes of deployments: here, or in other processes. */
export interface RouteOpener {
  /**
   * Opens routes that are not served yet.
   *
   * @param reason - The trigger of the change.
   * @param signal - Aborts the opening, which throws its reason.
   * @throws the reason that they cannot be served. Nothing stays open then.
   */
  open(plan: OpenablePlan, reason: string, signal?: AbortSignal): Promise<OpenedRoutes>
  /** Only after everything that it opened has closed. */
  close(): Promise<void>
}

/** Open routes. */
export interface OpenedRoutes {
  readonly app: FastifyInstance
  /** In the order of the options. */
  readonly routes: readonly ServedRoute[]
  /** The number of plug-ins that kept their instances. */
  readonly kept: number
  /** Makes them live in other processes. It does not fail: a process that does not commit is replaced. */
  commit?(): Promise<void>
  /** Closes them, if they are not live. */
  close(): Promise<void>
}

/** How routes are opened here. */
interface OpeningHere {
  readonly log: FastifyBaseLogger
  readonly meters?: Meters | undefined
  /** Adapts the options of a route. The same object must have the same result. Default: unchanged. */
  adapt?(route: VersionedRoute): VersionedRoute
  /** Counts for the rate limits. Default: this process counts for itself. */
  readonly counter?: RateCounter | undefined
  /** What was read of the files of `tls`. Default: they are read once, so that a reload does not depend on them. */
  readonly readTls?: TlsSettings | undefined
  /** Whether routes are opened without their store, if it cannot be reached. */
  readonly storeMayBeAway?: boolean
  /** Seals what clients of tools send back. Default: a secret of this process. */
  readonly stateSecret?: string | undefined
}

/** Opens routes in apps of this process, which share a pool. */
export function openHere(
  options: Resolved['options'],
  { log, meters, adapt, counter = new RateCounts(), ...given }: OpeningHere,
): RouteOpener {
  const pool = new RoutePool({ ...options, meters, storeMayBeAway: given.storeMayBeAway }, log)
  const keptKeys: JwtKeyCache = {} // keys of token issuers
  const streams: KeptStreams = { stateSecret: given.stateSecret }
  let tls = given.readTls
  return {
    async open({ options }, _reason, signal) {
      const routes = adapt ? options.routes.map(adapt) : options.routes
      tls ??= options.tls && readTls(options.tls)
      const all = { ...options, readTls: tls, routes, meters, signal }
      const opened = await createApp(all, log, pool, keptKeys, counter, streams)
      return { ...opened, close: () => opened.app.close() }
    },
    close: () => pool.close(),
  }
}
