import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Meters } from '../observe/metrics.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { RoutePool } from '../route/route-pool.ts'
import { createApp } from '../server/app.ts'
import type { JwtKeyCache } from '../server/edge/jwt.ts'
import type { DesiredState } from './desired-state.ts'
import type { Resolved } from './resolve.ts'

/** Opens the routes of deployments: here, or in other processes. */
export interface RouteOpener {
  /**
   * Opens routes that are not served yet.
   *
   * @param reason - The trigger of the change.
   * @param signal - Aborts the opening, which throws its reason.
   * @throws the reason that they cannot be served. Nothing stays open then.
   */
  open(
    plan: Pick<Resolved, 'options' | 'routes' | 'edits'> & { readonly desired: DesiredState },
    reason: string,
    signal?: AbortSignal,
  ): Promise<OpenedRoutes>
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

/** Opens routes in apps of this process, which share a pool. */
export function openHere(
  options: Resolved['options'],
  { log, meters }: { readonly log: FastifyBaseLogger; readonly meters?: Meters | undefined },
): RouteOpener {
  const pool = new RoutePool({ ...options, meters }, log)
  const keptKeys: JwtKeyCache = {} // keys of token issuers
  return {
    async open({ options }, _reason, signal) {
      const opened = await createApp({ ...options, meters, signal }, log, pool, keptKeys)
      return { ...opened, close: () => opened.app.close() }
    },
    close: () => pool.close(),
  }
}
