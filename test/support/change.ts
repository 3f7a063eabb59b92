import { onTestFinished } from 'vitest'
import { Changer, type MakeWanted, type Wanted } from '../../src/deploy/changer.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../../src/options/options.ts'
import { startServer } from '../../src/server/server.ts'

/** What a change makes: these routes. */
export function wanted(routes: RouteOptions[], server: Partial<ServerOptions> = {}): MakeWanted<Wanted> {
  return async () => {
    const quick = { stallMs: 0, drainMs: 0, graceMs: 100, port: 0, logLevel: 'silent' } as const
    return { options: checkServerOptions({ ...quick, ...server, routes }), pages: 0 }
  }
}

/** A server that listens and can be changed; closed when the test ends. */
export async function changing(routes: RouteOptions[], server: Partial<ServerOptions> = {}) {
  const log = openLog('silent')
  const changer = await Changer.open(wanted(routes, server), () => ({ log }))
  const { options } = changer.live.wanted
  const running = await startServer(options, changer.live.app, log)
  changer.follow(running)
  onTestFinished(async () => {
    changer.refuse()
    await running.drain()
    await changer.close()
  })
  const post = async (path: string, body: string) => {
    const answer = await fetch(running.url + path, { method: 'POST', body })
    return { status: answer.status, body: await answer.text() }
  }
  return { changer, server: running, url: running.url, port: Number(new URL(running.url).port), post }
}
