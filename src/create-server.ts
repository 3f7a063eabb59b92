import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { StartedAdmin } from './admin/admin.ts'
import { programConfiguration } from './deploy/configuration.ts'
import type { Deployments, Surroundings } from './deploy/deployments.ts'
import { changeServer, openDeployments } from './deploy/start.ts'
import { openLog, type RecentLines } from './observe/log/log.ts'
import type { Meters } from './observe/metrics.ts'
import {
  type CheckedServerOptions,
  type CreateServerOptions,
  checkCreateServerOptions,
} from './options/options.ts'
import { type Behind, openFront } from './server/server.ts'

/** A Fastify app that serves plug-ins and nothing else. */
export interface WasmServer extends FastifyInstance {
  /** Where the admin listener listens; undefined if none was asked for. */
  readonly adminUrl: string | undefined
}

/** How long requests may take that are in flight when a server closes that has no `graceMs`: what Node's timers can wait for. */
const FOR_EVER_MS = 2_147_483_647

/**
 * Makes a Fastify app that serves plug-ins and nothing else, hardened, with its engines open: ready for `listen` or
 * `inject`. Who calls it closes it.
 *
 * `listen()` without an address listens where the options say. What the options open beside it is open when the promise
 * resolves, and closed with the app: the admin listener (`admin`), and the watching of files (`watch`). A change by one
 * of them replaces what answers; the app stays the same.
 *
 * @param options - Those of the server. Default of `drainMs`: 0; of `graceMs`: `close()` waits for the requests in flight.
 * With `admin`, `adminToken` has to be given.
 * @param log - Default: JSON lines on standard error. The console shows the lines of this default only.
 * @throws {@link OptionsError}, `ListenError`, and what {@link loadPlugin} and the opening of instances throw.
 */
export async function createServer(
  options: CreateServerOptions,
  log?: FastifyBaseLogger,
): Promise<WasmServer> {
  const checked = checkCreateServerOptions(options)
  const { drainMs = 0, graceMs = FOR_EVER_MS } = options
  const parts = await openParts(checked, log)
  let admin: StartedAdmin | undefined
  let deployments: Deployments | undefined
  try {
    const made = await openDeployments(programConfiguration(checked), async () => {
      admin = await startAdminOf(checked, parts)
      return parts
    })
    deployments = made
    let stop: () => void = () => undefined
    const behind: Behind = {
      get app() {
        return made.current.app
      },
      end() {
        admin?.showEnd()
        stop()
      },
      async close() {
        await made.close()
        await admin?.close()
      },
    }
    const front = await openFront({ ...checked, drainMs, graceMs }, behind, parts.log)
    stop = await changeServer(made, front.server)
    admin?.show({
      deployments: made,
      get url() {
        return front.url
      },
      get routes() {
        return made.current.served
      },
    })
    return Object.assign(front.app, { adminUrl: admin?.url })
  } catch (error) {
    // What is open would keep the process from ending.
    await deployments?.current.app.close()
    await deployments?.close()
    await admin?.close()
    throw error
  }
}

/** What is there before the routes. */
interface Parts extends Surroundings {
  /** There if the admin listener is asked for. */
  readonly meters?: Meters
  readonly lines?: RecentLines
}

/** Most servers have no admin listener, and load nothing of it. */
async function openParts(
  { admin, logLevel }: CheckedServerOptions,
  log: FastifyBaseLogger | undefined,
): Promise<Parts> {
  if (admin === undefined) return { log: log ?? openLog(logLevel) }
  const { RecentLines } = await import('./observe/log/log.ts')
  const { Meters } = await import('./observe/metrics.ts')
  const lines = new RecentLines()
  return { log: log ?? openLog(logLevel, { recent: lines }), meters: new Meters(), lines }
}

async function startAdminOf(
  options: CheckedServerOptions,
  { log, meters, lines }: Parts,
): Promise<StartedAdmin | undefined> {
  if (options.admin === undefined || !meters) return undefined
  const { startAdmin } = await import('./admin/admin.ts')
  return startAdmin(options.admin, options, { log, meters, lines })
}
