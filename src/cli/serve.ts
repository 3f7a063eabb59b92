import { resolve } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import type { StartedAdmin } from '../admin/start-admin.ts'
import { openControl, type ServeControl } from '../deploy/control.ts'
import { planAll } from '../deploy/problems.ts'
import { openLog } from '../observe/log/log.ts'
import { printable } from '../observe/log/printable.ts'
import type { RecentLines } from '../observe/log/recent-lines.ts'
import type { TracingSdk } from '../observe/traces.ts'
import { type Config, readConfig } from '../options/config.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { packageVersion } from '../platform/package-file.ts'
import { type RunningServer, startServer } from '../server/server.ts'
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
      const { renderConfig } = await import('../options/print-config.ts')
      return host.out.write(renderConfig(await planAll(config, host)))
    }
    await start(config, host)
  },
}

async function start(config: Config, host: Host): Promise<void> {
  const wasReloadAsked = host.signals.holdReload()
  const { control, server, log } = await open(config, host)
  const { wanted, routes } = control.changer.live
  for (const warning of wanted.warnings) log.warn(warning)
  const reload = () => void control.change('SIGHUP').catch(() => undefined) // it was reported
  host.signals.endWith(server, wanted.options, log, reload)
  if (wasReloadAsked()) reload()
  if (wanted.file !== undefined) host.out.write(`Configured by ${printable(resolve(wanted.file))}\n`)
  const [listens = '', ...rest] = renderBanner(server.url, routes, host.out.colours).split('\n')
  host.out.write(`${listens}\n${host.secrets.hide(rest.join('\n'))}`)
}

interface Opened {
  readonly control: ServeControl
  readonly server: RunningServer
  readonly log: FastifyBaseLogger
}

async function open(config: Config, host: Host): Promise<Opened> {
  let admin: StartedAdmin | undefined
  let sdk: TracingSdk | undefined
  let log = openLog('silent')
  try {
    const control = await openControl(config, host, async (options) => {
      const lines = options.admin === undefined ? undefined : await keepLines()
      log = openLog(options.logLevel, {
        terminal: host.logTerminal,
        lines: host.logLines,
        secrets: host.secrets,
        recent: lines,
      })
      if (options.otel) sdk = await startSdk(host)
      // Before the routes, so that it can tell that they are being loaded.
      if (options.admin !== undefined) admin = await openAdmin(options.admin, options, { log, lines }, host)
      return { log, meters: admin?.meters }
    })
    const server = await serveChanging(control, log)
    const { changer, book } = control
    const followed = admin?.follow(server, () => changer.live.routes, book && { ...control, book })
    return { control, log, server: flushedBy(followed ?? server, sdk) }
  } catch (error) {
    await admin?.close() // the process would not end
    throw error
  }
}

async function openAdmin(
  address: string,
  options: CheckedServerOptions,
  { log, lines }: { readonly log: FastifyBaseLogger; readonly lines: RecentLines | undefined },
  host: Host,
): Promise<StartedAdmin> {
  const { startAdmin } = await import('../admin/start-admin.ts') // most servers have none
  const admin = await startAdmin(address, options, log, lines)
  const token = admin.madeToken === undefined ? '' : `, token ${admin.madeToken}`
  host.writeError(`The admin listener is on ${admin.url}${token}\n${renderConsole(admin)}`)
  return admin
}

/** Only for those who look at them. */
async function keepLines(): Promise<RecentLines> {
  const { RecentLines } = await import('../observe/log/recent-lines.ts')
  return new RecentLines()
}

/** The console's address, with the token only if nobody else knows it; a browser reaches no Unix socket. */
function renderConsole({ url, madeToken }: StartedAdmin): string {
  if (url.startsWith('unix:')) return ''
  return `The console is on ${reachable(url)}/${madeToken === undefined ? '' : `#token=${madeToken}`}\n`
}

/** Before the app, which makes the spans. */
async function startSdk({ environment }: Host): Promise<TracingSdk> {
  const { startTracingSdk } = await import('../observe/traces.ts')
  return startTracingSdk(environment)
}

/** A server that ends when its spans are on their way. */
function flushedBy(server: RunningServer, sdk: TracingSdk | undefined): RunningServer {
  if (!sdk) return server
  return {
    ...server,
    async drain() {
      await server.drain()
      await sdk.close()
    },
  }
}

/** Starts a server whose end is that of the changes too. */
async function serveChanging(control: ServeControl, log: FastifyBaseLogger): Promise<RunningServer> {
  const { changer } = control
  const { wanted, app } = changer.live
  const server = await startServer(wanted.options, app, log).catch(async (error) => {
    await changer.close() // a store that is open would keep the process from ending
    throw error
  })
  changer.follow(server)
  const stopWatching = wanted.options.watch ? await watch(control) : undefined
  return {
    ...server,
    async drain() {
      stopWatching?.()
      changer.refuse()
      await server.drain()
      await changer.close()
    },
  }
}

/** Those who watch nothing do not load it. */
async function watch({ changer, make }: ServeControl): Promise<() => void> {
  const { watchFiles } = await import('../deploy/watch.ts')
  return watchFiles(changer, make())
}
