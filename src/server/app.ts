import { createServer, type IncomingMessage, METHODS, type ServerResponse } from 'node:http'
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import type { AgentRelay, ListChanges } from '../mcp/list-changes.ts'
import type { RunningRequests } from '../mcp/running-requests.ts'
import type { Tasks } from '../mcp/tasks.ts'
import type { ToolNotes } from '../mcp/tool-notes.ts'
import { requestId, requestLogs } from '../observe/log/request-log.ts'
import type { Tracing } from '../observe/traces.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { nextTurn } from '../platform/event-loop.ts'
import { type RateCounter, RateCounts } from '../platform/rate-counts.ts'
import { addRoutes } from '../route/add-routes.ts'
import { sendAnyError } from '../route/error-response.ts'
import { READING, refusedMethod } from '../route/method-guard.ts'
import type { VersionedOptions } from '../route/open-routes.ts'
import { routeNotFound } from '../route/route-error.ts'
import type { RoutePool } from '../route/route-pool.ts'
import type { RouteSockets } from '../route/websocket/serve-websocket.ts'
import type { JwtKeyCache } from './edge/jwt.ts'
import type { AnswerUnrouted } from './edge/static.ts'
import type { Staleness } from './stale.ts'

/**
 * Creates the app of {@link createServer} from validated options. Also returns the routes, and how many of them came
 * from the pool.
 *
 * @param shared - What outlives the app. Default: nothing.
 */
export async function createApp(
  options: CheckedServerOptions & VersionedOptions,
  log: FastifyBaseLogger,
  { pool, keys = {}, counter = new RateCounts(), streams = {}, staleness }: SharedByApps = {},
): Promise<{ app: FastifyInstance; routes: readonly ServedRoute[]; kept: number }> {
  // Loaded on demand.
  const accessLog = options.accessLog ? await import('../observe/log/access-log.ts') : undefined
  const logAccess = accessLog?.openAccessLog(options, log)
  const app = Fastify({
    // No logger: Fastify would create a child logger per request, and wait for the end of each response.
    childLoggerFactory: requestLogs(log),
    logController: new LogController({ disableRequestLogging: true }), // its log lines cost 13 us per request
    genReqId: requestId,
    trustProxy: trusted(options),
    return503OnClosing: false, // requests that arrive meanwhile are answered
    pluginTimeout: 0, // large modules may take long to compile
    schemaController: NO_SCHEMAS,
    routerOptions: { maxParamLength: Number.MAX_SAFE_INTEGER }, // the size of the head is limited
    frameworkErrors: (error, request, reply) => {
      // Fastify runs no hooks for a malformed URL.
      logAccess?.(request, reply)
      sendAnyError(error, request, reply)
    },
    serverFactory: (handler) => createServer(handler), // never listens: a server with limits passes requests on
  })
  app.log = log
  // Methods that Node.js accepts and Fastify does not know, so that routes answer them or return 405. The routes read the bodies.
  for (const method of METHODS)
    if (method !== 'CONNECT') app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  app.setErrorHandler(sendAnyError)
  if (logAccess) {
    app.addHook('onRequest', (request, reply, done) => {
      logAccess(request, reply)
      done()
    })
  }
  let added: Awaited<ReturnType<typeof addRoutes>> = { routes: [], callables: [], sockets: [], kept: 0 }
  const { apiKeys, jwt, cors, rateLimit, etag, compress, static: folders } = options
  const isUnwatched =
    !etag && [apiKeys, jwt, cors, rateLimit, compress, folders].every((option) => option === undefined)
  const isLogged = logAccess !== undefined
  const tracing = options.otel ? await openTracingOf(options) : undefined
  try {
    tracing?.addTo(app)
    let answerUnrouted: AnswerUnrouted | undefined
    if (!isUnwatched) {
      const { addEdge } = await import('./edge/edge.ts') // loaded on demand
      answerUnrouted = await addEdge(app, options, keys, counter)
    }
    if (staleness) (await import('./stale.ts')).answerStale(app, staleness) // loaded on demand
    if (pool) await nextTurn() // the previous app may be serving requests
    app.setNotFoundHandler(async (request, reply) => {
      const refused = refusedMethod(app, request)
      const mayBeFile = !refused || READING.includes(request.method)
      if (mayBeFile && (await answerUnrouted?.(request, reply))) return reply
      throw refused ?? routeNotFound(request.method, request.url)
    })
    app.register(async (scope) => {
      const { mcp } = options
      const isAlone = folders === undefined && !mcp
      const own = { isOwnApp: true, isAlone, isUnwatched, isLogged, hidesTools: mcp?.toolsOnly === true }
      const routes = { ...options, ...own, tracing }
      added = await addRoutes(scope, routes, pool)
      if (mcp) {
        const { addMcp, ...kept } = await import('../mcp/mcp.ts') // loaded on demand
        const changes = streams.changes ?? new kept.ListChanges(streams.relay)
        streams.changes = changes
        streams.stateSecret ??= kept.newStateSecret()
        streams.running ??= new kept.RunningRequests(streams.relay)
        const tasks = streams.tasks ?? new kept.Tasks(changes, streams.relay)
        streams.tasks = tasks
        streams.notes ??= new kept.ToolNotes()
        const { versions, taskHost, review } = await addMcp(scope, mcp, added.callables, {
          isUnwatched: isUnwatched && !isLogged,
          apiKeys,
          changes,
          counter,
          stateSecret: streams.stateSecret,
          running: streams.running,
          tasks,
          notes: streams.notes,
        })
        changes.begin(versions)
        lives.set(app, {
          begin: () => {
            tasks.replace(taskHost)
            changes.replace(versions)
          },
          end: () => {
            tasks.close()
            changes.close()
          },
          review: streams.isReviewed ? async () => undefined : review,
        })
      }
    })
    await app.ready()
  } catch (error) {
    await app.close() // threads and connections would keep the process alive
    throw error
  }
  socketsOf.set(app, added.sockets)
  methodsOf.set(app, () => listMethods(app, added.routes, options))
  return { app, routes: added.routes, kept: added.kept }
}

/** What the successive apps of a server share. */
interface SharedByApps {
  /** See {@link addRoutes}. */
  readonly pool?: RoutePool
  /** Keys of token issuers. */
  readonly keys?: JwtKeyCache
  /** Counts for the rate limits. Default: the app counts for itself. */
  readonly counter?: RateCounter | undefined
  /** Routes answer why their plug-ins are older than their sources. Default: they do not. */
  readonly staleness?: Staleness | undefined
  /** What the MCP endpoints share. */
  readonly streams?: KeptStreams | undefined
}

const socketsOf = new WeakMap<FastifyInstance, readonly RouteSockets[]>()

/** Closes the WebSockets of an app, each after the call in progress. */
export async function endSockets(app: FastifyInstance): Promise<void> {
  await Promise.all((socketsOf.get(app) ?? []).map((sockets) => sockets.end()))
}

/** Closes the WebSockets of a replaced app, except those of routes that another app has kept. */
export async function releaseSockets(app: FastifyInstance): Promise<void> {
  await Promise.all((socketsOf.get(app) ?? []).map((sockets) => sockets.release(app.server)))
}

const methodsOf = new WeakMap<FastifyInstance, () => string>()

/** Answers `OPTIONS *`, which is about no URL, and so about no route of the app. (RFC 9110, section 9.3.7) */
export function answerOptions(
  app: FastifyInstance,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const allow = methodsOf.get(app)?.() ?? 'OPTIONS'
  response
    .writeHead(204, { allow, 'x-content-type-options': 'nosniff', 'x-request-id': requestId(request) })
    .end()
}

/** Methods that any URL of an app answers. */
function listMethods(
  { supportedMethods }: FastifyInstance,
  routes: readonly ServedRoute[],
  { mcp, static: folders }: CheckedServerOptions,
): string {
  const ofRoutes = routes.flatMap(({ methods }) => (methods[0] === '*' ? supportedMethods : methods))
  const more = ['OPTIONS', ...(folders ? ['GET', 'HEAD'] : []), ...(mcp ? ['POST'] : [])]
  return [...new Set([...ofRoutes, ...more])].sort().join(', ')
}

/** The part of an app's life that its server decides. */
interface Life {
  /** Called when it answers requests in place of another app. */
  begin(): void
  /** Called when the server drains, or another app without a life answers. */
  end(): void
  /** Looks for problems that do not prevent a start, and logs them. Never throws. */
  review(): Promise<void>
}

const lives = new WeakMap<FastifyInstance, Life>()

/** undefined: the app need not know. */
export function lifeOf(app: FastifyInstance): Life | undefined {
  return lives.get(app)
}

/** What the MCP endpoints of successive apps share. */
export interface KeptStreams {
  changes?: ListChanges
  running?: RunningRequests
  tasks?: Tasks
  notes?: ToolNotes
  /** Whether another process looks for problems. */
  readonly isReviewed?: boolean
  /** The other processes of the server, if there are any. */
  readonly relay?: AgentRelay | undefined
  /** Shared by the processes of a server. */
  stateSecret?: string | undefined
}

/**
 * Fastify's schema compilers take as long to load as the rest of Fastify, and are loaded at startup unless others are
 * given. No route here has a schema, and routes cannot be added to an app that is ready.
 */
export const NO_SCHEMAS = {
  compilersFactory: { buildValidator: refuseSchemas, buildSerializer: refuseSchemas },
}

function refuseSchemas(): never {
  throw new Error('routes of this server must not have a schema')
}

/** Loaded on demand. */
async function openTracingOf({ tracing }: VersionedOptions): Promise<Tracing> {
  return tracing ?? (await import('../observe/traces.ts')).openTracing()
}

/** Clients of a Unix socket have no address: the peer is the proxy. */
function trusted({ trustProxy, socket }: CheckedServerOptions): string[] | TrustProxyFunction | false {
  if (!trustProxy) return false
  return socket === undefined ? trustProxy : (_address, hop) => hop === 0
}

type TrustProxyFunction = (address: string, hop: number) => boolean
