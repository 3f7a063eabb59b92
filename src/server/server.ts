import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance, FastifyListenOptions } from 'fastify'
import Fastify from 'fastify'
import { endCalls } from '../engine/engine.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { outlivesApp } from '../platform/lasting-responses.ts'
import { serveHanded } from '../platform/node-workarounds.ts'
import { answerOptions, endSockets, lifeOf, NO_SCHEMAS, releaseSockets } from './app.ts'
import { Drain } from './drain.ts'
import { createHttpServer, type HttpServerOptions, type RequestHandler } from './http-server.ts'
import { listenAt, urlOf } from './listen.ts'
import { takingTurns } from './request-turns.ts'
import { acceptUpgrades } from './upgrades.ts'

/** Time for instances to close after the last connection has ended. */
const SERVER_CLOSE_MS = 500

/** Sockets with a replaceable Fastify app behind them. */
export interface AppServer {
  /** The HTTP server to listen with. */
  readonly http: Server

  /** Another HTTP server, for another address. */
  addHttp(): Server

  /**
   * Replaces the current app: the next request goes to the new one. Requests in flight finish on the old app, which is
   * then closed. A draining server closes the new app immediately.
   */
  replace(app: FastifyInstance): Promise<void>

  /**
   * Ends the server without losing a request: answers carry `Connection: close` for `drainMs`, then the listener closes
   * and requests in flight finish. Connections open after `graceMs` are cut off, which is logged.
   */
  drain(): Promise<void>

  /** Closes the app and replaced apps that still finish requests. Call it when the sockets are closed. */
  closeApps(): Promise<void>
}

/** A listening server. */
export interface RunningServer extends Omit<AppServer, 'http' | 'addHttp' | 'closeApps'> {
  /** The URL: `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`. */
  readonly url: string
  /** Resolves with the reason if it cannot serve any more: the process should end, for its supervisor to restart it. */
  readonly failed?: Promise<string> | undefined
}

/**
 * Creates a server and listens.
 *
 * @param app - Answers the requests. The server owns it from now on.
 * @throws {@link ListenError} if it cannot listen; the app is closed.
 */
export async function startServer(
  options: CheckedServerOptions,
  app: FastifyInstance,
  log: FastifyBaseLogger,
): Promise<RunningServer> {
  try {
    const { http, replace, drain } = openServer(options, app, log)
    await listenAt(http, options, '--port')
    return { url: urlOf(http, options.tls ? 'https' : 'http'), replace, drain }
  } catch (error) {
    await app.close()
    throw error
  }
}

/** A server whose connections another process accepts. */
export interface HandedServer extends Pick<AppServer, 'replace' | 'drain'> {
  /** Serves an accepted connection. */
  take(socket: Socket): void
}

/**
 * Creates a server that gets its connections from another process.
 *
 * @param app - As for {@link startServer}.
 * @param quiet - Called when it drains, before it closes: waits until no connection is about to be handed over.
 */
export function openHandedServer(
  options: HttpServerOptions,
  app: FastifyInstance,
  log: FastifyBaseLogger,
  quiet: () => Promise<void>,
): HandedServer {
  const { http, replace, drain } = openServer(options, app, log, endCalls, quiet)
  return { replace, drain, take: serveHanded(http) }
}

/**
 * Creates a server that does not listen yet.
 *
 * @param app - As for {@link startServer}.
 * @param end - Ends calls that still run after `graceMs`. Default: all calls of the process.
 * @param quiet - Waits until no connection is about to arrive. Default: none has been opened for a while.
 */
export function openServer(
  options: HttpServerOptions,
  app: FastifyInstance,
  log: FastifyBaseLogger,
  end: () => void = endCalls,
  quiet?: () => Promise<void>,
): AppServer {
  let current = app
  const open = () => {
    const route: RequestHandler = (request, response) => {
      if (request.url === '*') answerOptions(current, request, response)
      else current.routing(request, response)
    }
    const drain = new Drain(takingTurns(route))
    const sockets = createHttpServer(options, drain.handle, log)
    const upgrades = acceptUpgrades(sockets.server, sockets.connections)
    upgrades.follow(current)
    return { drain, upgrades, ...sockets }
  }
  const first = open()
  const all = [first]
  void lifeOf(app)?.review()

  /** Replaced apps that still finish requests. */
  const replaced = new Set<Promise<unknown>>()
  const closeApps = async () => {
    await Promise.all([current.close(), ...replaced])
  }

  const drainAll = async () => {
    lifeOf(current)?.end()
    setTimeout(() => void endSockets(current), options.drainMs) // until then new ones are accepted
    const listening = all.filter(({ server }) => server.listening)
    const cuts = await Promise.all(
      listening.map(({ drain, ...sockets }) =>
        drain.run({ ...sockets, ...(quiet && { quiet }) }, options, end),
      ),
    )
    const cut = cuts.reduce((sum, count) => sum + count, 0)
    if (cut > 0)
      log.warn(
        { connections: cut, graceMs: options.graceMs },
        'cut off connections that were still open after graceMs',
      )
    // A guest may wait for a host function forever; its clients are disconnected now.
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
      for (const { upgrades } of all) upgrades.follow(next)
      const life = lifeOf(next)
      if (life) life.begin()
      else lifeOf(old)?.end()
      void life?.review()
      void releaseSockets(old) // they need not wait for the requests in flight, which may be long streams
      const end = async () => {
        // The old app may still be receiving a body.
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

/** Waits until a connection's latest response, and so all earlier ones, have ended. */
async function over(response: ServerResponse | undefined): Promise<void> {
  if (!response || response.writableFinished || response.destroyed || outlivesApp(response)) return
  const end = ends.get(response) ?? endOf(response)
  ends.set(response, end)
  await end
}

/** The ends that are waited for. A stream may outlive many apps, which share one listener. */
const ends = new WeakMap<ServerResponse, Promise<void>>()

function endOf(response: ServerResponse): Promise<void> {
  const { socket } = response.req
  return new Promise((resolve) => {
    const end = () => {
      response.off('close', end)
      socket.off('close', end) // the socket may outlive the response
      resolve()
    }
    response.once('close', end)
    socket.once('close', end) // Node emits no event on a response that was never sent
  })
}

/** A Fastify app that stays the same while the app behind it is replaced. */
interface Front {
  readonly app: FastifyInstance
  readonly server: Pick<AppServer, 'replace'>
  /** The URL; undefined while it does not listen. */
  readonly url: string | undefined
}

/** Lifecycle of the app behind a front. */
export interface AppSource {
  /** The current app. */
  readonly app: FastifyInstance
  /** Called when the front begins to close: no replacements from now on. */
  end(): void
  /** Called when the sockets are closed. */
  close(): Promise<void>
}

/**
 * Opens a front. `listen()` uses the address in the options; with its own address it behaves like Fastify's. `close()`
 * closes the sockets without losing a request: see {@link AppServer.drain}.
 */
export async function openSwappableApp(
  options: CheckedServerOptions,
  behind: AppSource,
  log: FastifyBaseLogger,
): Promise<Front> {
  // The process may have other servers: their calls must not be ended here.
  const server = openServer(options, behind.app, log, () => undefined)
  const sockets = [server.http].values()
  const app = Fastify({
    serverFactory: () => sockets.next().value ?? server.addHttp(),
    clientErrorHandler: () => undefined, // handled by the HTTP server
    schemaController: NO_SCHEMAS,
  })
  app.log = log
  app.addHook('preClose', async () => {
    behind.end()
    await server.drain()
  })
  app.addHook('onClose', async () => {
    await server.closeApps()
    await behind.close()
  })
  const listen = app.listen.bind(app)
  const own = async () => {
    await app.ready()
    await listenAt(server.http, options, 'the option port')
    return urlOf(server.http, options.tls ? 'https' : 'http')
  }
  type Listening = (error: Error | null, address: string) => void
  Object.assign(app, {
    listen(address?: FastifyListenOptions | Listening, callback?: Listening) {
      const done = typeof address === 'function' ? address : callback
      const { port, host, path } = typeof address === 'object' ? address : {}
      const isOwn = [port, host, path].every((part) => part === undefined)
      const listening = isOwn ? own() : listen(typeof address === 'object' ? address : {})
      if (!done) return listening
      return void listening.then(
        (address) => done(null, address),
        (error) => done(error, ''),
      )
    },
    inject: (...asked: Parameters<FastifyInstance['inject']>) => behind.app.inject(...asked),
    routing: (...exchange: Parameters<FastifyInstance['routing']>) => behind.app.routing(...exchange),
    printRoutes: (...how: Parameters<FastifyInstance['printRoutes']>) => behind.app.printRoutes(...how),
    hasRoute: (...route: Parameters<FastifyInstance['hasRoute']>) => behind.app.hasRoute(...route),
    findRoute: (...route: Parameters<FastifyInstance['findRoute']>) => behind.app.findRoute(...route),
  })
  await app.ready()
  return {
    app,
    server,
    get url() {
      return server.http.listening ? urlOf(server.http, options.tls ? 'https' : 'http') : undefined
    },
  }
}
