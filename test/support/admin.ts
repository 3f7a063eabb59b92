import { onTestFinished } from 'vitest'
import { openAdmin, startAdmin } from '../../src/admin/admin.ts'
import type { ServerView } from '../../src/admin/feature.ts'
import type { OperatorListener } from '../../src/admin/listener.ts'
import { openLog, RecentLines } from '../../src/observe/log/log.ts'
import { Meters } from '../../src/observe/metrics.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'

/** The token of the listeners that are opened here. */
export const TOKEN = 'a-token-for-tests-0123456789'

/** With it a request is let in. */
export const AUTHORIZED = { authorization: `Bearer ${TOKEN}` }

/** An admin listener on a free port of the loopback interface, without a real server; closed when the test ends. */
export async function listenAdmin(
  served: Partial<ServerView> = {},
  server: Partial<ServerOptions> = {},
  log = openLog('silent'),
): Promise<OperatorListener & { port: number }> {
  const options = checkServerOptions({ routes: [{ plugin: 'none.wasm' }], ...server })
  const { admin: address = '127.0.0.1:0' } = options
  const meters = new Meters()
  const view: ServerView = { state: 'serving', server: { url: 'http://127.0.0.1:1', routes: [] }, ...served }
  const admin = await openAdmin(
    { address, token: TOKEN, server: options },
    { served: view, meters, log, lines: new RecentLines(), options },
  )
  onTestFinished(() => admin.close())
  return { ...admin, port: Number(/\d+$/.exec(admin.url)) }
}

/** A server with these routes and its admin listener, both on free ports; drained when the test ends. */
export async function listenBoth(
  routes: RouteOptions[],
  server: Partial<ServerOptions> = {},
  log = openLog('silent'),
): Promise<RunningServer & { adminUrl: string }> {
  const own = { stallMs: 0, drainMs: 0, graceMs: 100, port: 0, admin: '127.0.0.1:0', adminToken: TOKEN }
  const options = checkServerOptions({ ...own, ...server, routes })
  const meters = new Meters()
  const admin = await startAdmin(options, { log, meters })
  const { app, routes: served } = await createApp({ ...options, meters }, log)
  const running = await startServer(options, app, log)
  admin.show({ url: running.url, routes: served })
  const drain = async () => {
    admin.showEnd()
    await running.drain()
    await admin.close()
  }
  onTestFinished(drain)
  return { ...running, drain, adminUrl: admin.url ?? '' }
}
