import { onTestFinished } from 'vitest'
import { type ConfigurationSource, programConfiguration } from '../../src/deploy/configuration.ts'
import type { ChangeOptions, MakeDesired } from '../../src/deploy/deployments.ts'
import { openDeployments } from '../../src/deploy/start.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../../src/options/options.ts'
import { startServer } from '../../src/server/server.ts'

function optionsOf(routes: RouteOptions[], server: Partial<ServerOptions>) {
  const quick = { stallMs: 0, drainMs: 0, graceMs: 100, port: 0, logLevel: 'silent' } as const
  return checkServerOptions({ ...quick, ...server, routes })
}

/** Deployments with a configuration from the test. */
export async function deploying(routes: RouteOptions[], server: Partial<ServerOptions> = {}) {
  const log = openLog('silent')
  let options = optionsOf(routes, server)
  const source: ConfigurationSource = {
    ...programConfiguration(options),
    read: (reading, failed) => programConfiguration(options).read(reading, failed),
  }
  const deployments = await openDeployments(source, () => ({ log }))
  return {
    log,
    deployments,
    /** A change to these routes. */
    to(routes: RouteOptions[], server: Partial<ServerOptions> = {}): MakeDesired {
      return (_now, reread) => {
        options = optionsOf(routes, server)
        return reread()
      }
    },
    /** Attempts a change. @returns its result. */
    async attempt(make: MakeDesired, options?: ChangeOptions) {
      const { record } = await deployments.attempt(make, 'test', options)
      return record
    },
  }
}

/** A server that listens and can be changed; closed when the test ends. */
export async function changing(routes: RouteOptions[], server: Partial<ServerOptions> = {}) {
  const { deployments, log, ...rest } = await deploying(routes, server)
  const { options, app } = deployments.current
  const running = await startServer(options, app, log)
  deployments.follow(running)
  onTestFinished(async () => {
    deployments.refuse()
    await running.drain()
    await deployments.close()
  })
  const post = async (path: string, body: string) => {
    const answer = await fetch(running.url + path, { method: 'POST', body })
    return { status: answer.status, body: await answer.text() }
  }
  const port = Number(new URL(running.url).port)
  return { deployments, ...rest, server: running, url: running.url, port, post }
}
