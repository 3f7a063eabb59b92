import { onTestFinished } from 'vitest'
import { createServer } from '../../src/index.ts'
import { openLog } from '../../src/observe/log/log.ts'
import {
  type CreateServerOptions,
  checkServerOptions,
  type RouteOptions,
  type ServerOptions,
} from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'

/** An app that serves one route, for `inject`; closed when the test ends. */
export async function serve(route: RouteOptions, server: Partial<CreateServerOptions> = {}) {
  const app = await createServer({ logLevel: 'silent', stallMs: 0, ...server, routes: [route] })
  onTestFinished(() => app.close())
  return app
}

/** A server that listens on a free port of the loopback interface; closed when the test ends. */
export async function listen(
  route: RouteOptions,
  server: Partial<ServerOptions> = {},
): Promise<RunningServer & { port: number }> {
  const running = await listenAll([route], server)
  onTestFinished(() => running.drain())
  return running
}

/** A server with these routes; the caller drains it. */
export async function listenAll(
  routes: RouteOptions[],
  server: Partial<ServerOptions> = {},
  log = openLog('silent'),
): Promise<RunningServer & { port: number }> {
  const options = checkServerOptions({ stallMs: 0, drainMs: 0, graceMs: 100, port: 0, ...server, routes })
  const { app } = await createApp(options, log)
  const running = await startServer(options, app, log)
  return { ...running, port: Number(new URL(running.url).port) }
}
