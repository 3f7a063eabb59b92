import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { AdminSources, StartedAdmin } from '../admin/admin.ts'
import { commandConfiguration, readOwnOptions } from '../deploy/configuration.ts'
import { type DeploymentContext, type Deployments, reload } from '../deploy/deployments.ts'
import { mainModuleOf } from '../deploy/edits.ts'
import type { FleetNode } from '../deploy/fleet/fleet-node.ts'
import type { OpenedFleet, OpeningFleet } from '../deploy/fleet/open-fleet.ts'
import { onceMore } from '../deploy/processes/change.ts'
import type { Processes } from '../deploy/processes/processes.ts'
import { openDeployments, serveDeployments } from '../deploy/start.ts'
import { openLog, type RecentLines } from '../observe/log/log.ts'
import type { Meters } from '../observe/metrics.ts'
import type { TracingSdk } from '../observe/traces.ts'
import type { Config } from '../options/config.ts'
import { MCP_DEFAULTS } from '../options/mcp-defaults.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { printable } from '../platform/text.ts'
import type { RunningServer } from '../server/server.ts'
import { reachable, renderBanner } from './banner.ts'
import type { Host } from './command.ts'
import { showTransfers } from './progress.ts'

const OTEL_ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT'

/** A server that is served by a command. */
export interface Serving {
  readonly url: string
  /** The address of the console, with its token if that was generated; undefined if there is none. */
  readonly consoleUrl: string | undefined
  /** Reads the configuration again. Its result is logged. */
  reload(): Promise<unknown>
  /** Notes that the last build of the sources has failed, or, if undefined, has not. */
  noteBuild(failure: (Error & { readonly code: string }) | undefined): void
}

/**
 * Starts a server, which a signal ends, and prints what it serves.
 *
 * @param isDevelopment - See `DeploymentContext`.
 * @throws the reason that it cannot start. It can be tried again.
 */
export async function startServing(config: Config, host: Host, isDevelopment = false): Promise<Serving> {
  const wasReloadAsked = host.signals.holdReload()
  const { deployments, server, log, processes, fleet, consoleUrl } = await openServing(
    config,
    host,
    isDevelopment,
  ).catch((error) => {
    wasReloadAsked()
    throw error
  })
  const { options, served, routes, warnings, desired } = deployments.current
  for (const warning of warnings) log.warn(warning)
  if (!options.otel && host.environment[OTEL_ENDPOINT])
    log.warn(`${OTEL_ENDPOINT} is set, and has no effect without --otel (option "otel")`)
  const reloadBySignal = () => deployments.apply(reload, 'SIGHUP')
  const again = () => void onceMore(reloadBySignal).catch(() => undefined) // failures are already reported
  const restart = processes && (() => processes.requestRestart('SIGUSR2'))
  host.signals.endWith(server, options, log, again, restart)
  if (wasReloadAsked()) again()
  const { file } = desired.configuration
  if (fleet) host.out.write(`Configured by ${printable(fleet.title)}\n`)
  else if (file !== undefined) host.out.write(`Configured by ${printable(resolve(file))}\n`)
  const signers = routes.map(({ target }) => mainModuleOf(target.live)?.signer)
  const [listens = '', ...rest] = renderBanner(server.url, served, host.out.colours, {
    signers,
    mcpUrl: options.mcp && (options.mcp.url ?? MCP_DEFAULTS.url),
  }).split('\n')
  const shared = processes ? `Served by processes: ${processes.list.length}\n` : ''
  host.out.write(`${listens}\n${shared}${host.secrets.hide(rest.join('\n'))}`)
  return {
    ...{ url: server.url, consoleUrl },
    reload: () => reloadBySignal().catch(() => undefined),
    noteBuild: (failure) => deployments.noteBuild(failure),
  }
}

interface OpenedServing {
  readonly deployments: Deployments
  readonly server: RunningServer
  readonly log: FastifyBaseLogger
  readonly processes: Processes | undefined
  readonly fleet: OpenedFleet | undefined
  readonly consoleUrl: string | undefined
}

async function openServing(config: Config, host: Host, isDevelopment: boolean): Promise<OpenedServing> {
  let admin: StartedAdmin | undefined
  let sdk: TracingSdk | undefined
  let log = openLog('silent')
  let processes: Processes | undefined
  let fleet: OpenedFleet | undefined
  try {
    const context = { ...host, onTransfer: showTransfers(host, 'pulled') }
    const begin = async (options: CheckedServerOptions, node?: FleetNode): Promise<DeploymentContext> => {
      await admin?.close() // the first state of a fleet was refused, and another one is tried
      const lines = options.admin === undefined ? undefined : await keepLines()
      log = openLog(options.logLevel, {
        terminal: host.logTerminal,
        lines: host.logLines,
        secrets: host.secrets,
        recent: lines,
      })
      const isShown = options.admin !== undefined || options.probes !== undefined
      const meters = isShown ? await openMeters() : undefined
      processes = await openProcessesOf(options, { log, meters }, host)
      if (options.otel && !processes) sdk ??= await startSdk(host)
      const open = processes?.open.bind(processes)
      if (!meters) return { log, open, isDevelopment }
      // Before the routes, so that health checks see the server starting.
      admin = await startAdminOf(options, { log, meters, lines, processes, fleet: node }, host)
      return { log, meters, open, isDevelopment }
    }
    fleet = await openFleetOf({ config, context, begin, log: () => log })
    const deployments =
      fleet?.deployments ?? (await openDeployments(commandConfiguration(config, context), begin))
    const server = await (processes ? processes.serve(deployments) : serveDeployments(deployments, log))
    const { url } = server
    fleet?.start(url)
    admin?.show({
      url,
      deployments,
      get routes() {
        return deployments.current.served
      },
    })
    return {
      ...{ deployments, log, processes, fleet },
      consoleUrl: admin?.url === undefined ? undefined : consoleAt(admin.url, admin.madeToken),
      server: { ...server, drain: () => endServing(server, admin, sdk) },
    }
  } catch (error) {
    await admin?.close() // else the process would not end
    throw error
  }
}

/** @returns undefined if the options name no fleet. Loaded on demand. */
async function openFleetOf(
  opening: Omit<OpeningFleet, 'own' | 'settings'>,
): Promise<OpenedFleet | undefined> {
  if (!(await mayHaveFleet(opening.config))) return undefined
  const [{ fleetSettings }, { openFleet }] = await Promise.all([
    import('../deploy/fleet/settings.ts'),
    import('../deploy/fleet/open-fleet.ts'),
  ])
  const own = await readOwnOptions(opening.config, opening.context)
  const settings = fleetSettings(own)
  return settings && openFleet({ ...opening, own, settings })
}

/** The listeners for operators stay open until the end. Pending spans are flushed last. */
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
  options: CheckedServerOptions,
  sources: AdminSources,
  host: Host,
): Promise<StartedAdmin> {
  const { startAdmin } = await import('../admin/admin.ts') // loaded on demand
  const admin = await startAdmin(options, { ...sources, secrets: host.secrets })
  const { url, probesUrl, madeToken } = admin
  const token = madeToken === undefined ? '' : `, token ${madeToken}`
  if (url !== undefined) host.writeError(`The admin listener is on ${url}${token}\n`)
  const page = url === undefined ? undefined : consoleAt(url, madeToken)
  if (page !== undefined) host.writeError(`The console is on ${page}\n`)
  if (probesUrl !== undefined) host.writeError(`The listener for probes is on ${probesUrl}\n`)
  return admin
}

/** Whether a command line may name a fleet. Most do not, and their config file is not parsed twice. */
async function mayHaveFleet({ flags, variables, configFile, words }: Config): Promise<boolean> {
  if (flags.server.entries.has('fleet') || variables.server.entries.has('fleet')) return true
  const file = configFile ?? (words.length === 0 ? await defaultConfigFile() : undefined)
  // Who reads the configuration reports a file that cannot be read.
  const text = file === undefined ? '' : await readFile(file, 'utf8').catch(() => '')
  return text.includes('fleet')
}

async function defaultConfigFile(): Promise<string | undefined> {
  const { findConfigFile } = await import('../options/config-file.ts') // loaded on demand
  return findConfigFile('.')
}

async function openMeters(): Promise<Meters> {
  const { Meters } = await import('../observe/metrics.ts')
  return new Meters()
}

async function keepLines(): Promise<RecentLines> {
  const { RecentLines } = await import('../observe/log/log.ts')
  return new RecentLines()
}

/** The token is in the address only if it was generated. Browsers cannot reach a Unix socket. */
function consoleAt(url: string, madeToken: string | undefined): string | undefined {
  if (url.startsWith('unix:')) return undefined
  return `${reachable(url)}/${madeToken === undefined ? '' : `#token=${madeToken}`}`
}

/** Loaded on demand. */
async function openProcessesOf(
  { processes, processMemoryMax: memoryMax, processSilentMs: silentMs }: CheckedServerOptions,
  context: Pick<DeploymentContext, 'log' | 'meters'>,
  { secrets, signals }: Host,
): Promise<Processes | undefined> {
  if (!processes) return undefined
  const [{ openProcesses }, { availableParallelism }] = await Promise.all([
    import('../deploy/processes/processes.ts'),
    import('node:os'),
  ])
  const count = processes === 'auto' ? availableParallelism() : processes
  const opened = openProcesses({ ...context, count, memoryMax, silentMs, secrets: () => secrets.all })
  signals.atExit(() => opened.kill())
  return opened
}

/** Runs before the app is created, which creates the spans. */
async function startSdk({ environment }: Host): Promise<TracingSdk> {
  const { startTracingSdk } = await import('../observe/traces.ts')
  return startTracingSdk(environment)
}
