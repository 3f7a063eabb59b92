import type { FastifyBaseLogger } from 'fastify'
import type { Deployments } from '../deploy/deployments.ts'
import { RecentLines } from '../observe/log/log.ts'
import type { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { type Admin, openAdmin } from './admin.ts'
import type { ServerView } from './feature.ts'
import { makeToken } from './token.ts'

/** The admin listener of a server, which is there before the server. */
export interface StartedAdmin extends Pick<Admin, 'url'> {
  /** The token, if it was made here: somebody has to be told. */
  readonly madeToken: string | undefined
  /** Shows this server from now on. */
  show(server: ShownServer): void
  /** Shows that the server is ending, and is not ready. */
  showEnd(): void
  /** To be called last: until then operators see how the server ends. */
  close(): Promise<void>
}

/** What runs. */
export interface ShownServer {
  /** Where clients reach it; undefined while it does not listen. */
  readonly url: string | undefined
  /** Those that it has at present. */
  readonly routes: readonly ServedRoute[]
  /** What changes it. */
  readonly deployments?: Deployments | undefined
}

/** What an admin listener shows beside the server. */
export interface AdminSources {
  readonly log: FastifyBaseLogger
  /** Where calls are counted. */
  readonly meters: Meters
  /** The last lines of the log. Default: none. */
  readonly lines?: RecentLines | undefined
  /** What it does not show. Default: nothing. */
  readonly secrets?: ServerView['secrets']
}

/**
 * Opens the admin listener that the options ask for.
 *
 * @param address - The option `admin`.
 * @throws {@link ListenError} if the address cannot be had.
 */
export async function startAdmin(
  address: string,
  options: CheckedServerOptions,
  { log, meters, lines = new RecentLines(), secrets }: AdminSources,
): Promise<StartedAdmin> {
  let shown: ShownServer = { url: undefined, routes: [] }
  let state: ServerView['state'] = 'starting'
  const served: ServerView = {
    get state() {
      return state
    },
    get url() {
      return shown.url
    },
    get routes() {
      return shown.routes
    },
    get deployments() {
      return shown.deployments
    },
    secrets,
  }
  const madeToken = options.adminToken === undefined ? makeToken() : undefined
  const token = options.adminToken ?? madeToken ?? ''
  const admin = await openAdmin({ address, token, server: options }, { served, meters, log, lines, options })
  return {
    url: admin.url,
    madeToken,
    close: () => admin.close(),
    show(server) {
      shown = server
      state = 'serving'
    },
    showEnd() {
      state = 'draining'
    },
  }
}
