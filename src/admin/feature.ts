import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Deployments } from '../deploy/deployments.ts'
import type { FleetNode } from '../deploy/fleet/fleet-node.ts'
import type { Processes } from '../deploy/processes/processes.ts'
import type { RecentLines } from '../observe/log/log.ts'
import type { Secrets } from '../observe/log/secrets.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'

/**
 * One feature of the admin listener, such as its API: adds its routes. Requests must carry the token and must not come
 * from a page of another origin. A route whose `config` has `needsNoToken: true` needs no token, but still refuses
 * foreign origins. Thrown errors become problem details.
 */
export type AdminFeature = (app: FastifyInstance, context: AdminContext) => void | Promise<void>

/** The context of a feature that only shows the server. */
export interface ProbeContext {
  readonly served: ServerView
  readonly meters: Meters
  readonly log: FastifyBaseLogger
  /** The serving processes; undefined if this process serves. */
  readonly processes?: Processes | undefined
}

/** The context of a feature. */
export interface AdminContext extends ProbeContext {
  /** The most recent log lines. */
  readonly lines: RecentLines
  /** The options of the start. */
  readonly options: CheckedServerOptions
  /** The node of a fleet; undefined if the server is not one. */
  readonly fleet?: FleetNode | undefined
}

/** What answers clients. */
export interface ShownServer {
  /** The URL of the routes: `http://127.0.0.1:8080`, `unix:/run/plugins.sock`. undefined while it does not listen. */
  readonly url: string | undefined
  /** The current routes. */
  readonly routes: readonly ServedRoute[]
  /** Applies changes. */
  readonly deployments?: Deployments | undefined
}

/** The running server. Read it on each request, because it changes. */
export interface ServerView {
  /** `starting` until the public listener is open, `draining` from the beginning of a shutdown. */
  readonly state: 'starting' | 'serving' | 'draining'
  /** During the start without a URL, routes and deployments. */
  readonly server: ShownServer
  /** The serving processes; undefined if this process serves. */
  readonly processes?: Pick<Processes, 'list'> | undefined
  /** The node of a fleet; undefined if the server is not one. */
  readonly fleet?: Pick<FleetNode, 'status'> | undefined
  /** Masks secrets in answers. */
  readonly secrets?: Pick<Secrets, 'hideInJson'> | undefined
}
