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

    const options = checkServerOptions({
      ...config.server,
      routes: await routesOf(config.source, config.route),
    })
    const log = openLog(options.logLevel, host.logTerminal)
    const { app, routes } = await createApp(options, log)
    const server = await startServer(options, app, log)
    endWithSignals(server, options, log, isNpmRun(host) ? host.parentId : undefined)
    host.out.write(renderBanner(server.url, routes, host.out.colours))
  },
}

/**
 * The function named, at `/`. None named: the only one, or each of several at its name, and the one that is called
 * like the file also at `/`.
 */
async function routesOf(source: string, route: Record<string, unknown>): Promise<object[]> {
  const plugin = await loadPlugin(source)
  const exports = callableExports(plugin)
  if (route.function !== undefined || exports.length < 2) return [{ ...route, plugin: source }]

  const routes = exports.map((name) => ({ ...route, plugin: source, function: name, url: urlOf(name) }))
  const namesake = exports.find((name) => name === basename(source, extname(source)))
  return namesake === undefined
    ? routes
    : [{ ...route, plugin: source, function: namesake, url: '/' }, ...routes]
}

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
