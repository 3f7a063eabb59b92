import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { endCalls } from '../engine/end-calls.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { Drain } from './drain.ts'
import { createHttpServer } from './http-server.ts'
import { listenAt, urlOf } from './listen.ts'

/** How long instances may take to close once the last connection has ended. */
const CLOSE_MS = 500

/** A server that listens. It owns the sockets; the Fastify app behind them can be replaced. */
export interface RunningServer {
  /** Where it listens: `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`. */
  readonly url: string

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
  let current = app
  const drain = new Drain((request, response) => current.routing(request, response))
  const { server, connections, http2 } = createHttpServer(options, drain.handle, log)
  try {
    await listenAt(server, options, '--port')
  } catch (error) {
    await app.close()
    throw error
  }

  /** Those that still end what they have begun. */
  const replaced = new Set<Promise<unknown>>()

  const end = async () => {
    const cut = await drain.run({ server, connections, http2 }, options, endCalls)
    if (cut > 0)
      log.warn({ connections: cut, graceMs: options.graceMs }, 'what did not end in time was cut off')
    // A guest that waits for a host function may do so for ever; nobody waits for it now.
    const closed = Promise.all([current.close(), ...replaced])
    await Promise.race([closed, sleep(CLOSE_MS, undefined, { ref: false })])
  }
  let ended: Promise<void> | undefined

  return {
    url: urlOf(server, options.tls ? 'https' : 'http'),

    async replace(next) {
      if (ended) return next.close()
      const old = current
      current = next
      const end = async () => {
        // A body may still be on its way to the old app.
        await Promise.all([...[...connections.values()].map(over), http2?.over()])
        await old.close()
      }
      const closed = end()
      replaced.add(closed)
      await closed.finally(() => replaced.delete(closed))
    },

    drain() {
      ended ??= end()
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
