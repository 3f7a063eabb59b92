import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { WebsocketPluginOptions } from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { WebSocket } from 'ws'
import { openRouteContract } from '../../contract/direct.ts'
import { takesMessages } from '../../guest/streams/stream-imports.ts'
import { observeCalls, type VersionCounts } from '../../observe/observe.ts'
import type { ServedRoute } from '../../options/served-route.ts'
import { loadPackage } from '../../platform/optional-package.ts'
import type { OpenRoute } from '../open-route.ts'
import type { OpenVersions, VersionedOptions } from '../open-routes.ts'
import type { RouteHooks } from '../route.ts'
import type { RouteHandler } from '../route-pool.ts'
import type { TableRoute } from '../route-table.ts'
import { weightedChoice } from '../weighted-choice.ts'
import { RouteSockets, type SocketVersion, VERSION } from './serve-websocket.ts'

/** A route whose requests become WebSockets. */
export interface SocketTableRoute extends TableRoute {
  readonly sockets: RouteSockets
}

/** Default time in which a client reads something, and of that in which a message arrives: those of the server. */
const DEFAULT_MS = 30_000

/** The handler of a route with the contract `websocket`. Each connection has one of its versions. */
export function openSockets(
  { live, next }: OpenVersions,
  config: ServedRoute,
  hooks: RouteHooks | undefined,
  countsOf: (version: OpenRoute) => VersionCounts | undefined,
  {
    unreadTimeoutMs = DEFAULT_MS,
    requestTimeoutMs = DEFAULT_MS,
  }: Pick<VersionedOptions, 'unreadTimeoutMs' | 'requestTimeoutMs'>,
): RouteHandler {
  const first = versionOf(live, countsOf(live))
  const second = next && versionOf(next.route, countsOf(next.route))
  const isSecond = weightedChoice(next?.percent ?? 0)
  const pick = () => (second && isSecond() ? second : first)
  const sockets = new RouteSockets(
    { ...live.options, unreadTimeoutMs, requestTimeoutMs },
    config,
    hooks,
    pick,
  )
  return { config, sockets, handler: () => undefined } // requests that are no handshakes are refused before
}

function versionOf(
  { options, plugin, exportName, instances, listeners, engine, streamsPerThread }: OpenRoute,
  version: VersionCounts | undefined,
): SocketVersion {
  const { contract, isDirect } = openRouteContract(options, false)
  const takes = takesMessages(plugin)
  const isPerConnection = options.websocketPer === undefined ? takes : options.websocketPer === 'connection'
  return {
    calls: {
      exportName,
      contract,
      isDirect,
      engine: instances,
      observe: observeCalls({ ...listeners, version }),
    },
    isPerConnection,
    workers: engine.name === 'inline' ? 1 : engine.workers,
    streamsPerThread,
    maxWaitMs: options.maxWaitMs,
    meter: listeners.meter,
  }
}

/**
 * Adds the routes whose requests become WebSockets. Each has a scope of its own, because the package limits messages by
 * scope; one more scope gets the handshakes of the app and passes them through its hooks to the route.
 *
 * An app whose user has added the package has one limit for all messages: then the routes count the bytes after it.
 *
 * @param addRoute - Adds a route with more properties to a scope.
 * @throws {@link PackageMissingError}
 */
export async function addWebSockets(
  app: FastifyInstance,
  routes: readonly SocketTableRoute[],
  addRoute: (
    scope: FastifyInstance,
    route: TableRoute,
    options: VersionedOptions,
    more: Partial<RouteOptions>,
  ) => void,
  options: VersionedOptions,
): Promise<void> {
  const { default: websocket } = await loadPackage(
    'the contract websocket',
    '@fastify/websocket',
    () => import('@fastify/websocket'),
  )
  const isAdded = app.hasDecorator('websocketServer')
  if (!isAdded && !passedOn.has(app.server)) {
    passedOn.add(app.server)
    await app.register(async (scope) => {
      scope.routing = closingAnswers(app)
      await scope.register(websocket, packageOptions({}))
    })
  }
  const replies = new WeakMap<FastifyRequest, FastifyReply>()
  for (const route of routes) {
    const { sockets } = route
    await app.register(async (scope) => {
      const { bodyLimit: maxPayload, websocketProtocols } = sockets.options
      const handleProtocols = (offered: Set<string>) =>
        [...offered].find((name) => websocketProtocols.includes(name)) ?? false
      const server = { server: new EventEmitter() } // no handshakes: it only completes them
      if (!isAdded)
        await scope.register(
          websocket,
          packageOptions({ ...server, ...messageLimits(maxPayload), handleProtocols }),
        )
      addRoute(scope, route, options, {
        method: 'GET', // the package wants no list
        preHandler: (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => {
          const problem = sockets.problemWith(request, request.ws === true)
          if (problem?.statusCode === 426) askForUpgrade(reply)
          if (problem?.statusCode === 400) reply.header('sec-websocket-version', VERSION)
          replies.set(request, reply)
          done(problem)
        },
        wsHandler: (socket, request) => {
          sockets.accept(socket, request)
          endWith(socket, replies.get(request)?.raw)
        },
      })
    })
  }
  for (const { sockets } of routes) sockets.hold(app.server)
  app.addHook(
    'preClose',
    async () => void (await Promise.all(routes.map(({ sockets }) => sockets.release(app.server)))),
  )
}

/** Servers whose handshakes are passed on. An app may have several groups of routes: its hooks see each handshake once. */
const passedOn = new WeakSet<FastifyInstance['server']>()

/** The package removes the pieces of a frame from the beginning of an array, which takes time that grows with its length. */
function messageLimits(maxPayload: number) {
  return { maxPayload, maxBufferedChunks: Math.max(4_096, Math.ceil(maxPayload / 1_024)) }
}

/**
 * Compression would cost memory for each connection. The routes close their connections, and notice errors: the package
 * would log each violation of a client as an error, and close before the closing frame has left.
 */
function packageOptions(options: object): WebsocketPluginOptions {
  return {
    options: { perMessageDeflate: false, clientTracking: false, autoPong: false, ...options },
    errorHandler: () => undefined,
    preClose: (done) => done(),
  }
}

/** The answer that became a connection ends with it, after the counts of the connection are complete. */
function endWith(socket: WebSocket, response: ServerResponse | undefined): void {
  if (response?.socket) response.detachSocket(response.socket)
  socket.once('close', () => response?.emit('close'))
}

/** An answer to a handshake other than 101 ends the connection: Node reads no more requests from it. */
function closingAnswers(app: FastifyInstance): FastifyInstance['routing'] {
  return (request, response) => {
    const { socket } = request
    response.shouldKeepAlive = false
    response.once('finish', () => socket.destroySoon())
    app.routing(request, response)
  }
}

/** HTTP/2 has no such header: there a client opens another connection. */
function askForUpgrade(reply: FastifyReply): void {
  if (reply.request.raw.httpVersionMajor === 1)
    reply.header('connection', 'upgrade').header('upgrade', 'websocket')
}
