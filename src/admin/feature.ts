import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Deployments } from '../deploy/deployments.ts'
import type { RecentLines } from '../observe/log/log.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'

/**
 * One feature of the admin listener, such as its API: adds the routes. Requests that reach them carry the token and come
 * from no page of another origin, unless a route's `config` says `needsNoToken: true`: then anybody who reaches the
 * listener may send them, but again no page of another origin. Errors that are thrown become problem details.
 */
export type AdminFeature = (app: FastifyInstance, context: AdminContext) => void | Promise<void>

/** What a feature is given. */
export interface AdminContext {
  readonly served: ServerView
  readonly meters: Meters
  readonly log: FastifyBaseLogger
  /** What was logged last. */
  readonly lines: RecentLines
  /** Those of the start. */
  readonly options: CheckedServerOptions
}

/** What runs, as the admin listener shows it. Read at each request, because it changes. */
export interface ServerView {
  /** `starting` until the public listener is there, `draining` from the moment that the server is to end. */
  readonly state: 'starting' | 'serving' | 'draining'
  /** Where clients reach the routes: `http://127.0.0.1:8080`, `unix:/run/plugins.sock`. Undefined while it starts. */
  readonly url: string | undefined
  /** What answers at present; none while it starts. */
  readonly routes: readonly ServedRoute[]
  /** What changes it; undefined while it starts. */
  readonly deployments?: Deployments | undefined
  /** What answers do not show. */
  readonly secrets?: Pick<Secrets, 'hideInJson'> | undefined
}
