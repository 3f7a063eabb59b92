import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { RecentLines } from '../observe/log/recent-lines.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { Served } from './served.ts'

/** What a room is given. */
export interface RoomContext {
  readonly served: Served
  readonly meters: Meters
  readonly log: FastifyBaseLogger
  /** What was logged last. */
  readonly lines: RecentLines
  /** Those of the start. */
  readonly options: CheckedServerOptions
}

/**
 * Adds one thing to the admin listener, such as its API: its routes. Requests that reach them carry the token and come
 * from no page of another origin, unless a route's `config` says `needsNoToken: true`: then anybody who reaches the
 * listener may send them, but again no page of another origin. Errors that are thrown become problem details.
 */
export type AdminRoom = (app: FastifyInstance, context: RoomContext) => void | Promise<void>
