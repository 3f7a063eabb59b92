import { resolve } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { AdminSources, StartedAdmin } from '../admin/admin.ts'
import { commandConfiguration } from '../deploy/configuration.ts'
import { type Deployments, reload } from '../deploy/deployments.ts'
import { planCommand } from '../deploy/plan.ts'
import { openDeployments, serveDeployments } from '../deploy/start.ts'
import { openLog, type RecentLines } from '../observe/log/log.ts'
import type { TracingSdk } from '../observe/traces.ts'
import { type Config, readConfig } from '../options/config.ts'
import { MCP_DEFAULTS } from '../options/mcp-defaults.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { packageVersion } from '../platform/packages.ts'
import { printable } from '../platform/text.ts'
import type { RunningServer } from '../server/server.ts'
import { reachable, renderBanner } from './banner.ts'
import type { Command, Host } from './command.ts'
import { renderHelp } from './help.ts'

/** Serves plug-ins until a signal ends it. */
export const serve: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp(host.commands))
    if (config.version) return host.out.write(`${packageVersion()}\n`)
    if (config.printConfig) {
      const { renderConfig } = await import('../options/config.ts')
      return host.out.write(renderConfig(await planCommand(config, host)))
    }
    await startServing(config, host)
  },
}

async function startServing(config: Config, host: Host): Promise<void> {
  const wasReloadAsked = host.signals.holdReload()
  const { deployments, server, log } = await openServing(config, host)
  const { options, served, warnings, desired } = deployments.current
  for (const warning of warnings) log.warn(warning)
  const again = () => void deployments.apply(reload, 'SIGHUP').catch(() => undefined) // failures are already reported
  host.signals.endWith(server, options, log, again)
  if (wasReloadAsked()) again()
  const { file } = desired.configuration
  if (file !== undefined) host.out.write(`Configured by ${printable(resolve(file))}\n`)
  const mcpUrl = options.mcp && (options.mcp.url ?? MCP_DEFAULTS.url)
  const [listens = '', ...rest] = renderBanner(server.url, served, host.out.colours, mcpUrl).split('\n')
  host.out.write(`${listens}\n${host.secrets.hide(rest.join('\n'))}`)
}

interface OpenedServing {
  readonly deployments: Deployments
  readonly server: RunningServer
  readonly log: FastifyBaseLogger
}

async function openServing(config: Config, host: Host): Promise<OpenedServing> {
  let admin: StartedAdmin | undefined
  let sdk: TracingSdk | undefined
  let log = openLog('silent')
  try {
    const deployments = await openDeployments(commandConfiguration(config, host), async (options) => {
      const lines = options.admin === undefined ? undefined : await keepLines()
      log = openLog(options.logLevel, {
        terminal: host.logTerminal,
        lines: host.logLines,
        secrets: host.secrets,
        recent: lines,
      })
      if (options.otel) sdk = await startSdk(host)
      if (options.admin === undefined) return { log }
      const { Meters } = await import('../observe/metrics.ts')
      const meters = new Meters()
      // Before the routes, so that health checks see the server starting.
      admin = await startAdminOf(options.admin, options, { log, meters, lines }, host)
      return { log, meters }
    })
    const server = await serveDeployments(deployments, log)
    const { url } = server
    admin?.show({
      url,
      deployments,
      get routes() {
        return deployments.current.served
      },
    })
    return { deployments, log, server: { ...server, drain: () => endServing(server, admin, sdk) } }
  } catch (error) {
    await admin?.close() // else the process would not end
    throw error
  }
}

/** The admin listener stays open until the end. Pending spans are flushed last. */
async function endServing(
  server: RunningServer,
  admin: StartedAdmin | undefined,
  sdk: TracingSdk | undefined,
): Promise<void> {
  admin?.showEnd()
  await server.drain()
  await admin?.close()
  await sdk?.close()
}

async function startAdminOf(
  address: string,
  options: CheckedServerOptions,
  sources: AdminSources,
  host: Host,
): Promise<StartedAdmin> {
  const { startAdmin } = await import('../admin/admin.ts') // not loaded without --admin
  const admin = await startAdmin(address, options, { ...sources, secrets: host.secrets })
  const token = admin.madeToken === undefined ? '' : `, token ${admin.madeToken}`
  host.writeError(`The admin listener is on ${admin.url}${token}\n${renderConsole(admin)}`)
  return admin
}

/** Writes only to a terminal. */
async function keepLines(): Promise<RecentLines> {
  const { RecentLines } = await import('../observe/log/log.ts')
  return new RecentLines()
}

/** The console's address, with the token only if it was generated. Browsers cannot reach a Unix socket. */
function renderConsole({ url, madeToken }: StartedAdmin): string {
  if (url.startsWith('unix:')) return ''
  return `The console is on ${reachable(url)}/${madeToken === undefined ? '' : `#token=${madeToken}`}\n`
}

/** Before the app, which creates the spans. */
async function startSdk({ environment }: Host): Promise<TracingSdk> {
  const { startTracingSdk } = await import('../observe/traces.ts')
  return startTracingSdk(environment)
}
