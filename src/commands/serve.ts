import { createRequire } from 'node:module'
import { basename, extname } from 'node:path'
import { createApp } from '../app.ts'
import { renderBanner } from '../banner.ts'
import { callableExports } from '../callable.ts'
import { readConfig } from '../config.ts'
import { UsageError } from '../errors.ts'
import { openLog } from '../log.ts'
import { checkServerOptions } from '../options.ts'
import { loadPlugin } from '../plugin.ts'
import { startServer } from '../server.ts'
import { endWithSignals } from '../shutdown.ts'
import type { Command, Host } from './command.ts'
import { renderHelp } from './help.ts'

/** Serves a plug-in until a signal ends it. */
export const serve: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp())
    if (config.version) return host.out.write(`${packageVersion()}\n`)
    if (config.source === undefined) throw new UsageError('name a plug-in, such as hello.wasm')

    const { routes, leftOut } = await routesOf(config.source, config.route)
    const options = checkServerOptions({ ...config.server, routes })
    const log = openLog(options.logLevel, host.logTerminal)
    if (leftOut.length > 0)
      log.warn(`functions whose names cannot be routes were left out: ${leftOut.join(', ')}`)
    const { app, routes: served } = await createApp(options, log)
    const server = await startServer(options, app, log)
    endWithSignals(server, options, log, isNpmRun(host) ? host.parentId : undefined)
    host.out.write(renderBanner(server.url, served, host.out.colours))
  },
}

/**
 * The function named, at `/`. None named: the only one, or each of several at its name, and the one that is called
 * like the file also at `/`.
 */
async function routesOf(
  source: string,
  route: Record<string, unknown>,
): Promise<{ routes: object[]; leftOut: string[] }> {
  const plugin = await loadPlugin(source)
  const exports = callableExports(plugin)
  if (route.function !== undefined || exports.length < 2) {
    return { routes: [{ ...route, plugin: source }], leftOut: [] }
  }

  const namesake = exports.filter((name) => name === basename(source, extname(source)))
  const mounted = exports.filter((name) => !UNROUTABLE.test(name))
  const routeOf = (name: string, url: string) => ({ ...route, plugin: source, function: name, url })
  return {
    routes: [
      ...namesake.map((name) => routeOf(name, '/')),
      ...mounted.map((name) => routeOf(name, urlOf(name))),
    ],
    leftOut: exports.filter((name) => UNROUTABLE.test(name)),
  }
}

/** What Fastify's routes can match in no way, not even encoded: a wildcard, and what ends a path. */
const UNROUTABLE = /[*?#]/

/** In Fastify's route syntax a colon begins a parameter, and two are one. */
function urlOf(exportName: string): string {
  return `/${exportName.replaceAll(':', '::')}`
}

/** npm and npx say so in the environment of what they run. */
function isNpmRun({ environment }: Host): boolean {
  return environment.npm_command !== undefined
}

function packageVersion(): string {
  const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }
  return version
}
