import { METHODS } from 'node:http'
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import { RouteNotFoundError } from '../errors/errors.ts'
import { noteArrival, openAccessLog, requestId, requestLogs } from '../observe/log/request-log.ts'
import type { Tracing } from '../observe/traces.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { nextTurn } from '../platform/async-work.ts'
import { addRoutes } from '../route/add-routes.ts'
import { sendAnyError } from '../route/error-response.ts'
import type { VersionedOptions } from '../route/open-routes.ts'
import type { RoutePool } from '../route/route-pool.ts'
import type { JwtKeyCache } from './edge/jwt.ts'
import { createHttpServer } from './http-server.ts'

/**
 * Makes the app of {@link createServer}, from options that were checked; also tells what is served, and how much of it
 * came from the pool.
 *
 * @param pool - See {@link addRoutes}.
 * @param keptKeys - Keys of tokens that outlive the app.
 */
export async function createApp(
  options: CheckedServerOptions & VersionedOptions,
  log: FastifyBaseLogger,
  pool?: RoutePool,
  keptKeys: JwtKeyCache = {},
): Promise<{ app: FastifyInstance; routes: readonly ServedRoute[]; kept: number }> {
  const logAccess = openAccessLog(options, log)
  const app = Fastify({
    // No logger: Fastify would make a child of it for each request, and wait for the end of each answer.
    childLoggerFactory: requestLogs(log),
    logController: new LogController({ disableRequestLogging: true }), // its lines cost 13 us a request
    genReqId: requestId,
    trustProxy: trusted(options),
    return503OnClosing: false, // requests that still arrive are answered
    pluginTimeout: 0, // compiling a large module takes what it takes
    schemaController: NO_SCHEMAS,
    frameworkErrors: (error, request, reply) => {
      // Fastify runs no hooks for a URL that it cannot read.
      if (logAccess) reply.raw.once('finish', () => logAccess(request, reply))
      sendAnyError(error, request, reply)
    },
    clientErrorHandler: () => undefined, // the HTTP server has its own
    serverFactory: (handler) => createHttpServer(options, handler, log).server,
  })
  app.log = log
  addMethods(app)
  app.setErrorHandler(sendAnyError)
  if (logAccess) {
    app.addHook('onRequest', (request, reply, done) => {
      noteArrival(request)
      // onResponse is skipped when a client disconnects, and slow requests are the ones worth logging.
      reply.raw.once('close', () => logAccess(request, reply))
      done()
    })
  }
  const routes: ServedRoute[] = []
  let kept = 0
  app.addHook('onRoute', ({ config }) => {
    if (config?.wasmServe) routes.push(config.wasmServe)
  })
  const { trial, stallMs, store, storeMax, storeTimeoutMs, onCall, onResult, onError } = options
  const { meters, signal, subprocessUser, subprocessCgroup } = options
  const isUnwatched = !hasEdge(options) && !options.otel && logAccess === undefined
  const tracing = options.otel ? await openTracingOf(options) : undefined
  const own = {
    ...{ trial, stallMs, store, storeMax, storeTimeoutMs, onCall, onResult, onError },
    ...{
      subprocessUser,
      ...(subprocessCgroup !== undefined && { subprocessCgroup }),
      meters,
      tracing,
      signal,
    },
  }
  try {
    await tracing?.addTo(app)
    if (hasEdge(options)) {
      const { addEdge } = await import('./edge/edge.ts') // most servers have none
      await addEdge(app, options, keptKeys)
    }
    if (pool) await nextTurn() // an app before this one may be answering
    app.register(answerNotFound)
    app.register(async (scope) => {
      kept = await addRoutes(scope, { routes: options.routes, ...own, isOwnApp: true, isUnwatched }, pool)
    })
    await app.ready()
  } catch (error) {
    await app.close() // threads and connections would keep the process from ending
    throw error
  }
  return { app, routes, kept }
}

/**
 * What Fastify compiles the schemas of routes with takes as long to load as the rest of Fastify, and is loaded at once
 * unless there is something else. Nothing here has a schema, and nobody can add a route to an app that is ready.
 */
export const NO_SCHEMAS = {
  compilersFactory: { buildValidator: refuseSchemas, buildSerializer: refuseSchemas },
}

function refuseSchemas(): never {
  throw new Error('no route of this server may have a schema')
}

/** Loaded on demand. */
async function openTracingOf({ tracing }: VersionedOptions): Promise<Tracing> {
  return tracing ?? (await import('../observe/traces.ts')).openTracing()
}

function hasEdge(options: CheckedServerOptions): boolean {
  const { apiKeys, jwt, cors, rateLimit, etag, compress, static: folders } = options
  return etag || [apiKeys, jwt, cors, rateLimit, compress, folders].some((option) => option !== undefined)
}

/** Clients of a Unix socket have no addresses: the peer is the proxy. */
function trusted({ trustProxy, socket }: CheckedServerOptions): string[] | TrustProxyFunction | false {
  if (!trustProxy) return false
  return socket === undefined ? trustProxy : (_address, hop) => hop === 0
}

type TrustProxyFunction = (address: string, hop: number) => boolean

/**
 * Makes known what Fastify does not know and Node lets through, so that routes answer it or say 405. Fastify is to read
 * no bodies: our routes do, and nothing else serves.
 */
function addMethods(app: FastifyInstance): void {
  for (const method of METHODS) {
    if (method !== 'CONNECT') app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  }
}

/** In a scope of its own, so that its hook, which answers before a body is read, runs for unknown URLs only. */
async function answerNotFound(app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', async ({ method, url }) => {
    throw new RouteNotFoundError(method, url)
  })
  app.setNotFoundHandler(({ method, url }) => {
    throw new RouteNotFoundError(method, url)
  })
}
