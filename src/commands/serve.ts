import { resolve } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { StartedAdmin } from '../admin/start-admin.ts'
import { createApp } from '../app.ts'
import { renderBanner } from '../banner.ts'
import { readConfig } from '../config/config.ts'
import type { CheckedRouteOptions, CheckedServerOptions } from '../config/options.ts'
import { openLog } from '../log/log.ts'
import { printable } from '../log/printable.ts'
import { setMemoryCeiling } from '../memory-ceiling.ts'
import { packageVersion } from '../package-version.ts'
import { MEMORY_MAX, type Plugin } from '../plugin/plugin.ts'
import type { ServedRoute } from '../route/served-route.ts'
import { type RunningServer, startServer } from '../server.ts'
import { endWithSignals } from '../shutdown.ts'
import type { TracingSdk } from '../tracing/sdk.ts'
import type { Command, Host } from './command.ts'
import { renderHelp } from './help.ts'
import type { Plan } from './plan.ts'
import { explainFailure, planAll } from './problems.ts'

/** Serves plug-ins until a signal ends it. */
export const serve: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp(host.commands))
    if (config.version) return host.out.write(`${packageVersion()}\n`)
    const plan = await planAll(config, host)
    if (config.printConfig) {
      const { renderConfig } = await import('../config/print-config.ts')
      return host.out.write(renderConfig(plan))
    }
    await start(plan, host)
  },
}

async function start(plan: Plan, host: Host): Promise<void> {
  const { options, plugins, leftOut, file } = plan
  setMemoryCeiling(Math.max(...options.routes.map((route, index) => pagesOf(route, plugins[index]))))
  const log = openLog(options.logLevel, host.logTerminal, host.secrets)
  if (leftOut.length > 0)
    log.warn(`functions and files whose names cannot be routes were left out: ${leftOut.join(', ')}`)
  const sdk = options.otel ? await startSdk(host) : undefined
  const admin = options.admin === undefined ? undefined : await openAdmin(options.admin, options, log, host)
  const { server, routes } = await open(plan, log, admin)
  endWithSignals(
    sdk ? flushedBy(server, sdk) : server,
    options,
    log,
    isNpmRun(host) ? host.parentId : undefined,
  )
  if (file !== undefined) host.out.write(`Configured by ${printable(resolve(file))}\n`)
  const [listens = '', ...rest] = renderBanner(server.url, routes, host.out.colours).split('\n')
  host.out.write(`${listens}\n${host.secrets.hide(rest.join('\n'))}`)
}

/** Before the routes, so that it can tell that they are being loaded. */
async function openAdmin(
  address: string,
  options: CheckedServerOptions,
  log: FastifyBaseLogger,
  host: Host,
): Promise<StartedAdmin> {
  const { startAdmin } = await import('../admin/start-admin.ts') // most servers have none
  const admin = await startAdmin(address, options, log)
  const token = admin.madeToken === undefined ? '' : `, token ${admin.madeToken}`
  host.writeError(`The admin listener is on ${admin.url}${token}\n`)
  return admin
}

/** Before the app, which makes the spans. */
async function startSdk({ environment }: Host): Promise<TracingSdk> {
  const { startTracingSdk } = await import('../tracing/sdk.ts')
  return startTracingSdk(environment)
}

/** A server that ends when its spans are on their way. */
function flushedBy(server: RunningServer, sdk: TracingSdk): RunningServer {
  return {
    ...server,
    async drain() {
      await server.drain()
      await sdk.close()
    },
  }
}

async function open(
  plan: Plan,
  log: FastifyBaseLogger,
  admin: StartedAdmin | undefined,
): Promise<{ server: RunningServer; routes: readonly ServedRoute[] }> {
  const { options } = plan
  try {
    const { app, routes } = await createApp({ ...options, meters: admin?.meters }, log).catch(
      async (error) => {
        throw await explainFailure(plan, error)
      },
    )
    const server = await startServer(options, app, log)
    return { server: admin?.follow(server, routes) ?? server, routes }
  } catch (error) {
    await admin?.close() // the process would not end
    throw error
  }
}

/** Pages of the largest memory that a route needs: the guest's, or the kernel's, which adds a quarter to its blocks. */
function pagesOf({ memoryMax, blockLimit }: CheckedRouteOptions, plugin: Plugin | undefined): number {
  const ofKernel = Math.ceil((blockLimit * 1.25) / 65_536) + 2
  return Math.max(memoryMax ?? plugin?.settings?.memory.maxPages ?? MEMORY_MAX, ofKernel)
}

/** npm and npx say so in the environment of what they run. */
function isNpmRun({ environment }: Host): boolean {
  return environment.npm_command !== undefined
}
