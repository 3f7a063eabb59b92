import { createRequire } from 'node:module'
import { basename, extname } from 'node:path'
import { createApp } from '../app.ts'
import { renderBanner } from '../banner.ts'
import { type Config, readConfig } from '../config/config.ts'
import { type CheckedRouteOptions, checkServerOptions } from '../config/options.ts'
import { UsageError } from '../errors.ts'
import { openLog } from '../log.ts'
import { setMemoryCeiling } from '../memory-ceiling.ts'
import { callableExports } from '../plugin/callable.ts'
import { loadPlugin, MEMORY_MAX, type Plugin } from '../plugin/plugin.ts'
import { startServer } from '../server.ts'
import { endWithSignals } from '../shutdown.ts'
import type { Command, Host } from './command.ts'
import { renderHelp } from './help.ts'
import { sourceOf } from './source-options.ts'

/** Serves a plug-in until a signal ends it. */
export const serve: Command = {
  async run(argv, host) {
    const config = readConfig(argv, host.environment)
    if (config.help) return host.out.write(renderHelp())
    if (config.version) return host.out.write(`${packageVersion()}\n`)
    if (config.source === undefined) throw new UsageError('name a plug-in, such as hello.wasm')

    // Before anything is loaded: what is wrong with the flags is not to be blamed on the plug-in.
    checkServerOptions({ ...config.server, routes: [{ ...config.route, plugin: config.source }] })
    const plugin = await loadPlugin(...sourceOf(config, host.environment))
    const { routes, leftOut } = routesOf(plugin, config)
    const options = checkServerOptions({ ...config.server, routes })
    setMemoryCeiling(Math.max(...options.routes.map((route) => pagesOf(route, plugin))))
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
 * The function named, at `--url` or `/`. None named: the only one, or each of several at its name, and the one that is called
 * like the file also at `/`.
 */
function routesOf(plugin: Plugin, { source = '', route }: Config): { routes: object[]; leftOut: string[] } {
  const exports = callableExports(plugin)
  if (route.function !== undefined || route.url !== undefined || exports.length < 2) {
    return { routes: [{ ...route, plugin }], leftOut: [] }
  }

  const namesake = exports.filter((name) => name === basename(source, extname(source)))
  const mounted = exports.filter((name) => !UNROUTABLE.test(name))
  const routeOf = (name: string, url: string) => ({ ...route, plugin, function: name, url })
  return {
    routes: [
      ...namesake.map((name) => routeOf(name, '/')),
      ...mounted.map((name) => routeOf(name, urlOf(name))),
    ],
    leftOut: exports.filter((name) => UNROUTABLE.test(name)),
  }
}

/** What Fastify's routes can match in no way, not even encoded: a wildcard, what ends a path, no name. */
const UNROUTABLE = /^$|[*?#]/

/** Pages of the largest memory that a route needs: the guest's, or the kernel's, which adds a quarter to its blocks. */
function pagesOf({ memoryMax, blockLimit }: CheckedRouteOptions, { settings }: Plugin): number {
  const ofKernel = Math.ceil((blockLimit * 1.25) / 65_536) + 2
  return Math.max(memoryMax ?? settings?.memory.maxPages ?? MEMORY_MAX, ofKernel)
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
