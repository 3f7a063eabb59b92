import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { endCalls } from '../engine/engine.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { outlivesApp } from '../platform/lasting-responses.ts'
import { serveHanded } from '../platform/node-workarounds.ts'
import { hasBody } from '../route/body.ts'
import { answerOptions, endSockets, lifeOf, releaseSockets } from './app.ts'
import type { Connections } from './connections.ts'
import { Drain } from './drain.ts'
import {
  createHttpServer,
  type HttpServerOptions,
  type RequestHandler,
  requestProblem,
} from './http-server.ts'
import { listenAt, urlOf } from './listen.ts'
import { takingTurns } from './request-turns.ts'

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

/** The handshakes of a server. */
interface Upgrades {
  /** Routes upgrade requests to this app if it has WebSocket routes. */
  follow(app: FastifyInstance): void
}

/**
 * Passes WebSocket handshakes of a server to its app. Node gives a server that listens for them every request with the
 * header `Upgrade`, and does not read it further: so the server only listens while its app wants handshakes, and requests
 * that are none are read once more without the header, which a server may ignore. (RFC 9110, section 7.8)
 */
function acceptUpgrades(server: Server, connections: Connections): Upgrades {
  let current: FastifyInstance | undefined
  const onUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on('error', () => socket.destroy()) // Node has removed its own listener
    const pass = () => {
      if (socket.destroyed) return
      if (isHandshake(request)) current?.server.emit('upgrade', request, socket, head)
      else readAgain(request, socket, head, server)
    }
    const newest = connections.get(socket)
    if (newest && !newest.writableFinished)
      newest.once('close', pass) // a client that pipelines
    else pass()
  }
  return {
    follow(app) {
      current = app
      server.off('upgrade', onUpgrade)
      if (app.server.listenerCount('upgrade') > 0) server.on('upgrade', onUpgrade)
    },
  }
}

/** All others get the answer that they would get from a server without WebSockets. */
function isHandshake(request: IncomingMessage): boolean {
  const { method, httpVersion, headers } = request
  return (
    method === 'GET' &&
    httpVersion === '1.1' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    !hasBody(request) &&
    requestProblem(request) === undefined
  )
}

/** Serves the connection as a new one, which begins with the request. */
function readAgain(request: IncomingMessage, socket: Socket, head: Buffer, server: Server): void {
  const { method, url, httpVersion, rawHeaders } = request
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    if (rawHeaders[at]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`)
  const text = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  socket.unshift(Buffer.concat([text, head]))
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket)
}
