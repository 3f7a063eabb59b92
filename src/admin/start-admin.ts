import type { FastifyBaseLogger } from 'fastify'
import { RecentLines } from '../observe/log/recent-lines.ts'
import { Meters } from '../observe/metrics.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import type { RunningServer } from '../server/server.ts'
import { type Admin, openAdmin } from './admin.ts'
import type { Control } from './api/control.ts'
import type { Served } from './served.ts'
import { makeToken } from './token.ts'

/** The admin listener of a process, which is there before the server that it tells of. */
export interface StartedAdmin extends Pick<Admin, 'url' | 'close'> {
  /** What it tells of calls: the app has to count them there. */
  readonly meters: Meters
  /** The token, if it was made here: somebody has to be told. */
  readonly madeToken: string | undefined
  /**
   * Tells of this server from now on, to its end.
   *
   * @param routes - Those that it has at present.
   * @param control - Changes what it serves.
   * @returns the server, whose `drain` begins with telling that it is not ready, and ends with the admin listener.
   */
  follow(server: RunningServer, routes: () => readonly ServedRoute[], control?: Control): RunningServer
}

/**
 * Opens the admin listener that the options ask for.
 *
 * @param address - The option `admin`.
 * @param lines - Where the log's last lines are kept.
 * @throws {@link ListenError} if the address cannot be had.
 */
export async function startAdmin(
  address: string,
  options: CheckedServerOptions,
  log: FastifyBaseLogger,
  lines = new RecentLines(),
): Promise<StartedAdmin> {
  const meters = new Meters()
  let routesNow: () => readonly ServedRoute[] = () => []
  const served: Changing<Omit<Served, 'routes'>> & Pick<Served, 'routes'> = {
    state: 'starting',
    url: undefined,
    control: undefined,
    get routes() {
      return routesNow()
    },
  }
  const madeToken = options.adminToken === undefined ? makeToken() : undefined
  const token = options.adminToken ?? madeToken ?? ''
  const admin = await openAdmin({ address, token, server: options }, { served, meters, log, lines, options })
  return {
    url: admin.url,
    meters,
    madeToken,
    close: () => admin.close(),
    follow(server, routes, control) {
      routesNow = routes
      Object.assign(served, { state: 'serving', url: server.url, control })
      return {
        ...server,
        async drain() {
          served.state = 'draining'
          await server.drain()
          await admin.close()
        },
      }
    },
  }
}

type Changing<Type> = { -readonly [Key in keyof Type]: Type[Key] }
