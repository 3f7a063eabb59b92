import type { FastifyInstance, onRequestHookHandler, RouteHandlerMethod, RouteOptions } from 'fastify'
import { openRouteContract } from '../contract/direct.ts'
import { RouteConflictError, RouteInvalidError } from '../errors/errors.ts'
import { addServerTiming, observeCalls, type VersionCounts } from '../observe/observe.ts'
import type { CheckedRouteOptions } from '../options/options.ts'
import {
  type CallHooks,
  constraintsOf,
  methodsOfAll,
  RouteFacts,
  routeConflicts,
  type ServedRoute,
} from '../options/served-route.ts'
import { toolName } from '../options/tool-name.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import { keepRecordsOfPaused } from '../platform/node-workarounds.ts'
import { processPartials } from '../platform/partial-bytes.ts'
import { isMediaType } from '../platform/text.ts'
import { type CallableRoute, callableRoute } from './callable-route.ts'
import { sendRouteError } from './error-response.ts'
import { fullPaths, guardMethods } from './method-guard.ts'
import type { OpenRoute } from './open-route.ts'
import { type OpenVersions, openRoutes, type VersionedOptions } from './open-routes.ts'
import { batched } from './request-batches.ts'
import { hooksOf, type RouteHooks, type RunCall, runCalls, runHookedCalls, serveRoute } from './route.ts'
import { blameRoute } from './route-error.ts'
import type { RouteHandler, RoutePool } from './route-pool.ts'
import type { TableRoute } from './route-table.ts'
import { serveStreams } from './streams/serve-streams.ts'
import type { SocketTableRoute } from './websocket/add-websockets.ts'
import type { RouteSockets } from './websocket/serve-websocket.ts'
import { weightedChoice } from './weighted-choice.ts'

/**
 * Adds the routes to an app, which closes their resources.
 *
 * @param pool - Resources of the server's other apps: unchanged routes are reused. The pool belongs to its creator.
 * Default: a pool of this app.
 */
export async function addRoutes(
  app: FastifyInstance,
  options: VersionedOptions,
  pool?: RoutePool,
): Promise<AddedRoutes> {
  const { routes } = options
  const [conflict] = routeConflicts(routes, app.supportedMethods)
  if (conflict) throw new RouteConflictError(conflict.method, routes[conflict.later]?.url ?? '')

  if (!options.isOwnApp) keepRecordsOfPaused(app.server)
  app.removeAllContentTypeParsers() // guests get the original bytes
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.setErrorHandler(sendRouteError)

  const tryOut = async (route: CheckedRouteOptions) => {
    const { trySmoke } = await import('./smoke.ts') // loaded on demand
    await trySmoke(route, options, addRoutes)
  }
  const opened = await openRoutes(options, app, tryOut, pool)
  app.addHook('onClose', () => opened.close())
  // Loaded on demand.
  const websockets = routes.some(isSocketRoute) ? await import('./websocket/add-websockets.ts') : undefined
  const swagger = app.hasDecorator('swagger') ? await import('./openapi/swagger.ts') : undefined
  const pace = new EventLoopYielder(() => app.after()) // lets Fastify process its queue
  const methods = methodsOfAll(routes, app.supportedMethods, (method, { url, host }) =>
    fullPaths(app, url).some((path) => app.hasRoute({ method, url: path, constraints: constraintsOf(host) })),
  )
  const answering = ` ${[options.isUnwatched, options.isLogged, options.hidesTools]}`
  const routeContext = { ...options, websockets }
  const served: TableRoute[] = []
  const callables: CallableRoute[] = []
  for (const [index, versions] of opened.routes.entries()) {
    const { live, next } = versions
    const route = live.options
    const own = methods(route)
    const instances = [live.instances, ...(next ? [next.route.instances] : [])]
    const place = `${app.prefix} ${own}${isSocketRoute(route) ? '' : answering}`
    const handler = opened.pool.handlerOf(routes[index] ?? route, instances, place, () =>
      handlerOf(app, versions, opened.pool, own, routeContext),
    )
    const isStreamed = live.streams || next?.route.streams === true
    const source = typeof routes[index]?.plugin === 'string' ? routes[index].plugin : undefined
    const document = await swagger?.swaggerConfig(app, handler.config, source)
    served.push({ options: route, methods: own, isStreamed, document, ...handler })
    if (route.tool) {
      const hooks = hooksOf(options, route)
      callables.push(callableRoute(versions, handler.config, opened.pool, hooks, routes[index]))
    }
    await pace.step()
  }
  const sockets = served.filter(hasSockets)
  await websockets?.addWebSockets(app, sockets, addRoute, options)
  const shown = served.filter((route) => !hasSockets(route) && !route.config.tool?.isOnly)
  const isMany = options.isAlone && shown.length >= LEAST_TABLE_ROUTES
  const table = isMany ? await import('./route-table.ts') : undefined // loaded on demand
  if (table?.fitTable(app, shown)) await table.addRouteTable(app, shown)
  else {
    for (const route of shown) {
      if (route.isStreamed) await app.register(unreadScope((scope) => addRoute(scope, route, options)))
      else addRoute(app, route, options)
      await pace.step()
    }
    guardMethods(
      app,
      [...shown, ...sockets].map(({ options: route }) => route),
      options.isOwnApp,
    )
  }
  return {
    routes: served.map(({ config }) => config),
    callables,
    sockets: sockets.map(({ sockets }) => sockets),
    kept: opened.kept,
  }
}

/** The number of routes below which they are routes of Fastify. */
const LEAST_TABLE_ROUTES = 256

/** What {@link addRoutes} has added. */
interface AddedRoutes {
  readonly routes: readonly ServedRoute[]
  /** Routes that are tools. */
  readonly callables: readonly CallableRoute[]
  /** The connections of each route with the contract `websocket`. */
  readonly sockets: readonly RouteSockets[]
  /** The number of reused plug-ins. */
  readonly kept: number
}

function isSocketRoute({ contract }: Pick<CheckedRouteOptions, 'contract'>): boolean {
  return contract === 'websocket'
}

function hasSockets(route: TableRoute): route is SocketTableRoute {
  return route.sockets !== undefined
}

/** The handler of a route with these versions. */
function handlerOf(
  app: FastifyInstance,
  versions: OpenVersions,
  pool: RoutePool,
  methods: readonly string[],
  routeContext: CallHooks &
    Pick<
      VersionedOptions,
      'isUnwatched' | 'isLogged' | 'hidesTools' | 'unreadTimeoutMs' | 'requestTimeoutMs'
    > & {
      readonly websockets: typeof import('./websocket/add-websockets.ts') | undefined
    },
): RouteHandler {
  const { live, next } = versions
  const { options, plugin, exportName, runtime, engine } = live
  const { url, host, bodyLimit, description, timing } = options
  processPartials.expect(bodyLimit)
  const allHooks = hooksOf(routeContext, options)
  const isUnwatched = routeContext.isUnwatched === true && !allHooks
  const { contract, isDirect } = openRouteContract(options, isUnwatched, routeContext.isLogged)
  const config = new LiveRoute(
    {
      methods: methods.length === app.supportedMethods.length ? ['*'] : methods,
      url: app.prefix + url,
      host,
      contract: contract.name,
      description,
      errorStatus: options.errorStatus,
      plugin: plugin.name,
      digest: plugin.digest,
      function: exportName,
      ...engineOf(live),
      engineReason: engine.name === 'inline' ? undefined : engine.reason,
      runtime: runtime.name,
      streams: live.streams,
      tool: options.tool && {
        name: options.contract === 'hyper-mcp' ? undefined : toolName(options, exportName),
        isOnly: options.contract === 'hyper-mcp' || routeContext.hidesTools === true,
      },
      split: next && {
        ...engineOf(next.route),
        digest: next.route.plugin.digest,
        percent: next.percent,
        counts: [pool.countsOf(live), pool.countsOf(next.route)],
      },
    },
    versions,
  )
  if (routeContext.websockets && isSocketRoute(options)) {
    const { openSockets } = routeContext.websockets
    const countsOf = (version: OpenRoute) => (next ? pool.countsOf(version) : undefined)
    return openSockets(versions, config, allHooks, countsOf, routeContext)
  }
  const runOf = ({ exportName, instances, listeners }: OpenRoute, version?: VersionCounts): RunCall => {
    const observe = observeCalls({ ...listeners, timing, version })
    const { cancelOnDisconnect } = options
    const calls = { exportName, contract, isDirect, engine: instances, observe, cancelOnDisconnect }
    return batched(allHooks ? runHookedCalls(calls, allHooks, config) : runCalls(calls), instances)
  }
  const countedRunOf = (version: OpenRoute) => runOf(version, pool.countsOf(version))
  if (live.streams || next?.route.streams) {
    const handlerOf = (version: OpenRoute) =>
      version.streams
        ? streamsOf(version, config, allHooks, pool.countsOf(version))
        : serveRoute(countedRunOf(version), bodyLimit, isDirect)
    return { config, handler: splitHandlers(handlerOf(live), next && handlerOf(next.route), next?.percent) }
  }
  // Without a split, nothing is added between a route and its instances.
  const run = next ? splitCalls(countedRunOf(live), countedRunOf(next.route), next.percent) : runOf(live)
  return { config, handler: serveRoute(run, bodyLimit, isDirect) }
}

/** The handler of a version whose guests stream. */
function streamsOf(
  { options, exportName, instances, listeners, engine, streamsPerThread }: OpenRoute,
  config: ServedRoute,
  hooks: RouteHooks | undefined,
  version: VersionCounts,
): RouteHandlerMethod {
  const { contract } = openRouteContract(options, false) // what a guest has not started may go through hooks
  const observe = observeCalls({ ...listeners, timing: options.timing, version })
  const calls = { exportName, contract, isDirect: false, engine: instances, observe }
  const workers = engine.name === 'inline' ? 1 : engine.workers
  return serveStreams(calls, { ...options, workers, streamsPerThread }, config, hooks, listeners.meter)
}

function splitHandlers(
  first: RouteHandlerMethod,
  second: RouteHandlerMethod | undefined,
  percent = 0,
): RouteHandlerMethod {
  if (!second) return first
  const isSecond = weightedChoice(percent)
  return function handle(this: FastifyInstance, request, reply) {
    return (isSecond() ? second : first).call(this, request, reply)
  }
}

class LiveRoute extends RouteFacts implements ServedRoute {
  readonly split: ServedRoute['split']
  readonly #versions: OpenVersions

  constructor(route: Omit<ServedRoute, 'trouble'>, versions: OpenVersions) {
    super(route)
    this.split = route.split
    this.#versions = versions
  }

  get trouble(): string | undefined {
    const { live, next } = this.#versions
    return live.instances.trouble ?? next?.route.instances.trouble
  }
}

/** @param more - Other properties of Fastify's route. */
function addRoute(
  app: FastifyInstance,
  { options: route, methods, config, handler, document }: TableRoute,
  options: Pick<VersionedOptions, 'isOwnApp'>,
  more: Partial<RouteOptions> = {},
): void {
  const { url, host, bodyLimit, headers, timing } = route
  if (methods.length === 0)
    throw blameRoute(new RouteInvalidError(url, 'the app handles all methods there'), route)
  // Hooks and documents of an app want to know each method; one route of Fastify for all is cheaper.
  const groups = options.isOwnApp ? [[...methods]] : methods
  try {
    for (const method of groups)
      app.route({
        method,
        url,
        constraints: constraintsOf(host),
        ...(bodyLimit > 0 && { bodyLimit }),
        config: { wasmServe: config, ...document },
        exposeHeadRoute: false, // HEAD is one of the methods
        onRequest: [
          ...(options.isOwnApp ? [] : [acceptAnyContentType]),
          ...(Object.keys(headers).length > 0 ? [addHeaders(headers)] : []),
        ],
        ...(timing && { onSend: addServerTiming }),
        handler,
        ...more,
      })
  } catch (error) {
    const failure = new RouteInvalidError(url, (error as Error).message, { cause: error })
    throw blameRoute(failure, route)
  }
}

/** A scope in which Fastify reads no bodies, even in an app that reads those of other routes. */
function unreadScope(add: (scope: FastifyInstance) => void) {
  return async (scope: FastifyInstance) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _body, done) => done(null))
    add(scope)
  }
}

function splitCalls(first: RunCall, second: RunCall, percent: number): RunCall {
  const isSecond = weightedChoice(percent)
  return (request, reply) => (isSecond() ? second(request, reply) : first(request, reply))
}

/** The execution of a version's calls, as described by a {@link ServedRoute}. */
function engineOf({ engine }: OpenRoute): Pick<ServedRoute, 'engine' | 'workers'> {
  return { engine: engine.name, workers: engine.name === 'inline' ? 0 : engine.workers }
}

/** A hook that adds a route's headers to all answers, including failures. */
function addHeaders(headers: Readonly<Record<string, string>>): onRequestHookHandler {
  return (_request, reply, done) => {
    reply.headers(headers)
    done()
  }
}

/** Fastify rejects content types that it cannot parse before it looks for a parser; the guest may support them. */
const acceptAnyContentType: onRequestHookHandler = (request, _reply, done) => {
  const { headers } = request.raw
  const type = headers['content-type']
  if (type !== undefined && !isMediaType(type)) headers['content-type'] = 'application/octet-stream'
  done()
}
