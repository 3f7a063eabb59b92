import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { StartedAdmin } from './admin/admin.ts'
import { programConfiguration } from './deploy/configuration.ts'
import type { DeploymentContext, Deployments } from './deploy/deployments.ts'
import { changeServer, openDeployments } from './deploy/start.ts'
import { openLog, type RecentLines } from './observe/log/log.ts'
import type { Meters } from './observe/metrics.ts'
import {
  type CheckedServerOptions,
  type CreateServerOptions,
  checkCreateServerOptions,
} from './options/options.ts'
import { type AppSource, openSwappableApp } from './server/front.ts'

/** A Fastify app that serves plug-ins and nothing else. */
export interface WasmServer extends FastifyInstance {
  /** The address of the admin listener; undefined without one. */
  readonly adminUrl: string | undefined
  /** The address of the listener for probes; undefined without one. */
  readonly probesUrl: string | undefined
}

/** Default time limit of pending requests when a server without `graceMs` closes: the maximum of Node's timers. */
const FOR_EVER_MS = 2_147_483_647

/**
 * Creates a hardened Fastify app that serves plug-ins and nothing else, with open engines: ready for `listen` or
 * `inject`. The caller closes it.
 *
 * `listen()` without an address uses the options. The listeners for operators (`admin`, `probes`) and the watching of files (`watch`)
 * are open when the promise resolves, and close with the app. A change by one of them replaces the handlers; the app stays
 * the same.
 *
 * @param options - The server's options. Default of `drainMs`: 0; of `graceMs`: `close()` waits for pending requests.
 * `admin` requires `adminToken`.
 * @param log - Default: JSON lines on standard error. The console shows the lines of this default only.
 * @throws {@link OptionsError}, `ListenError`, and errors of {@link loadPlugin} and of opening instances.
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
    const behind: AppSource = {
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
    const front = await openSwappableApp({ ...checked, drainMs, graceMs }, behind, parts.log)
    stop = await changeServer(made, front.server, parts.log)
    admin?.show({
      deployments: made,
      get url() {
        return front.url
      },
      get routes() {
        return made.current.served
      },
    })
    return Object.assign(front.app, { adminUrl: admin?.url, probesUrl: admin?.probesUrl })
  } catch (error) {
    // Open resources would keep the process alive.
    await deployments?.current.app.close()
    await deployments?.close()
    await admin?.close()
    throw error
  }
}

/** The resources that exist before the routes. */
interface Parts extends DeploymentContext {
  /** Present with the option `admin` or `probes`. */
  readonly meters?: Meters
  readonly lines?: RecentLines
}

/** Loaded on demand: most servers have no listener for operators. */
async function openParts(
  { admin, probes, logLevel }: CheckedServerOptions,
  log: FastifyBaseLogger | undefined,
): Promise<Parts> {
  if (admin === undefined && probes === undefined) return { log: log ?? openLog(logLevel) }
  const { RecentLines } = await import('./observe/log/log.ts')
  const { Meters } = await import('./observe/metrics.ts')
  const lines = new RecentLines()
  return { log: log ?? openLog(logLevel, { recent: lines }), meters: new Meters(), lines }
}

async function startAdminOf(
  options: CheckedServerOptions,
  { log, meters, lines }: Parts,
): Promise<StartedAdmin | undefined> {
  if (!meters) return undefined
  const { startAdmin } = await import('./admin/admin.ts')
  return startAdmin(options, { log, meters, lines })
}
