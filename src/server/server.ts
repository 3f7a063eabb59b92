import type { Server, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { endCalls } from '../engine/engine.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { Drain } from './drain.ts'
import { createHttpServer } from './http-server.ts'
import { listenAt, urlOf } from './listen.ts'

/** How long instances may take to close once the last connection has ended. */
const SERVER_CLOSE_MS = 500

/** Sockets, with a Fastify app behind them that can be replaced. */
export interface AppServer {
  /** To listen with. */
  readonly http: Server

  /** Another one, for another address. */
  addHttp(): Server

  /**
   * Puts another app in the place of the present one: the next request goes there. What the old one has begun ends
   * there; then it is closed. A server that is being drained closes the new one at once.
   */
  replace(app: FastifyInstance): Promise<void>

  /**
   * Ends the server without losing a request: answers say `Connection: close` for `drainMs`, then the listener
   * closes and what is in flight ends. What has not ended after `graceMs` is cut off, and the log says so.
   */
  drain(): Promise<void>

  /** Closes the app, and those that still end what they have begun: to be called when the sockets are closed. */
  closeApps(): Promise<void>
}

/** A server that listens. */
export interface RunningServer extends Omit<AppServer, 'http' | 'addHttp' | 'closeApps'> {
  /** Where it listens: `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`. */
  readonly url: string
}

/**
 * Makes a server and listens.
 *
 * @param app - Answers the requests, and belongs to the server from now on.
 * @throws {@link ListenError} if the address cannot be had; the app is closed.
 */
export async function startServer(
  options: CheckedServerOptions,
  app: FastifyInstance,
  log: FastifyBaseLogger,
): Promise<RunningServer> {
  const { http, replace, drain } = openServer(options, app, log)
  try {
    await listenAt(http, options, '--port')
  } catch (error) {
    await app.close()
    throw error
  }
  return { url: urlOf(http, options.tls ? 'https' : 'http'), replace, drain }
}

/**
 * Makes a server that does not listen yet.
 *
 * @param app - As for {@link startServer}.
 * @param end - Ends the calls that have not ended after `graceMs`. Default: all of the process.
 */
export function openServer(
  options: CheckedServerOptions,
  app: FastifyInstance,
  log: FastifyBaseLogger,
  end: () => void = endCalls,
): AppServer {
  let current = app
  const open = () => {
    const drain = new Drain((request, response) => current.routing(request, response))
    return { drain, ...createHttpServer(options, drain.handle, log) }
  }
  const first = open()
  const all = [first]

  /** Those that still end what they have begun. */
  const replaced = new Set<Promise<unknown>>()
  const closeApps = async () => {
    await Promise.all([current.close(), ...replaced])
  }

  const drainAll = async () => {
    const listening = all.filter(({ server }) => server.listening)
    const cuts = await Promise.all(listening.map(({ drain, ...sockets }) => drain.run(sockets, options, end)))
    const cut = cuts.reduce((sum, count) => sum + count, 0)
    if (cut > 0)
      log.warn({ connections: cut, graceMs: options.graceMs }, 'what did not end in time was cut off')
    // A guest may wait for a host function for ever; no client waits for it now.
    await Promise.race([closeApps(), sleep(SERVER_CLOSE_MS, undefined, { ref: false })])
  }
  let ended: Promise<void> | undefined

  return {
    http: first.server,
    closeApps,

    addHttp() {
      const more = open()
      all.push(more)
      return more.server
    },

    async replace(next) {
      if (ended) return next.close()
      const old = current
      current = next
      const end = async () => {
        // A body may still be on its way to the old app.
        const responses = all.flatMap(({ connections }) => [...connections.values()])
        await Promise.all([...responses.map(over), ...all.map(({ http2 }) => http2?.over())])
        await old.close()
      }
      const closed = end()
      replaced.add(closed)
      await closed.finally(() => replaced.delete(closed))
    },

    drain() {
      ended ??= drainAll()
      return ended
    },
  }
}

/** Waits until a connection's newest response has ended, and with it those before. */
async function over(response: ServerResponse | undefined): Promise<void> {
  if (!response || response.writableFinished || response.destroyed) return
  const { socket } = response.req
  await new Promise<void>((resolve) => {
    const end = () => {
      response.off('close', end)
      socket.off('close', end) // it may live long, and see many apps come and go
      resolve()
    }
    response.once('close', end)
    socket.once('close', end) // Node does not tell a response whose turn never came
  })
}
