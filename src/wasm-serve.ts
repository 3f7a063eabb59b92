import type { FastifyInstance, FastifyPluginAsync, onRequestHookHandler, RegisterOptions } from 'fastify'
import fp from 'fastify-plugin'
import {
  type CheckedWasmServeOptions,
  checkWasmServeOptions,
  type WasmServeOptions,
} from './config/options.ts'
import { openContract } from './contract/named.ts'
import { isDebugged } from './engine/watchdog.ts'
import { RouteInvalidError } from './errors.ts'
import type { CallHooks } from './route/call-hooks.ts'
import { sendRouteError } from './route/error-response.ts'
import { hooksOf, runHookedCalls } from './route/hooked-calls.ts'
import { addMethodGuards } from './route/method-guard.ts'
import { type ChosenRoute, chooseRoute, type OpenRoute, openRoute, tryRoute } from './route/open-route.ts'
import { type EngineHolder, runCalls, serveRoute } from './route/route.ts'
import { constraintsOf, methodsOf, refuseConflicts } from './route/routes-table.ts'
import type { ServedRoute } from './route/served-route.ts'
import { openShared } from './route/shared.ts'
import { timingHooks } from './route/timing.ts'
import './tick-shape.ts'

const plugin: FastifyPluginAsync<WasmServeOptions> = async (app, registration) => {
  const { prefix, logLevel, logSerializers, ...ours } = registration as WasmServeOptions & RegisterOptions
  const options = checkWasmServeOptions(ours)
  const { routes } = options
  refuseConflicts(routes, app.supportedMethods)

  app.removeAllContentTypeParsers() // guests get the bytes as they came
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.setErrorHandler(sendRouteError)

  const opened = await openRoutes(options, app)
  for (const route of opened) {
    addRoute(app, route, methodsOf(route.options, routes, app.supportedMethods), options)
  }
  addMethodGuards(app, routes)
}

/**
 * Serves Extism plug-ins as routes of this scope, below its prefix. A reload swaps what answers at a route; routes
 * cannot be added once the app listens, because Fastify cannot.
 */
export const wasmServe: FastifyPluginAsync<WasmServeOptions> = fp(plugin, {
  name: 'wasm-serve',
  fastify: '5.x',
  encapsulate: true,
})

/** Opens all that the routes need; it is closed with the app, or if any of it fails. */
async function openRoutes(options: CheckedWasmServeOptions, app: FastifyInstance): Promise<OpenRoute[]> {
  const shared = openShared(options, app.log)
  const { routes, trial, stallMs } = options
  try {
    const chosen = await Promise.all(
      routes.map((options, index) => chooseRoute(options, ['routes', String(index)], shared)),
    )
    if (trial) await Promise.all(chosen.map((route) => tryRoute(route, app.log)))
    const opened = await openAll(chosen, (await isDebugged()) ? 0 : stallMs, app)
    app.addHook('onClose', async () => {
      try {
        await closeAll(opened)
      } finally {
        await shared.close()
      }
    })
    return opened
  } catch (error) {
    await shared.close()
    throw error
  }
}

/** Opens the engines in parallel; closes those that opened if one fails. */
async function openAll(
  routes: readonly ChosenRoute[],
  stallMs: number,
  app: FastifyInstance,
): Promise<OpenRoute[]> {
  const opened: OpenRoute[] = []
  try {
    for (const route of routes) {
      opened.push(openRoute(route, app.prefix + route.options.url, stallMs, app.log))
    }
    await Promise.all(opened.map(({ instances }) => instances.ready))
  } catch (error) {
    await closeAll(opened)
    throw error
  }
  return opened
}

async function closeAll(routes: readonly OpenRoute[]): Promise<void> {
  await Promise.all(routes.map((route) => route.close()))
}

function addRoute(app: FastifyInstance, route: OpenRoute, methods: string[], hooks: CallHooks): void {
  const { options, plugin, exportName, runtime, engine, instances } = route
  const holder: EngineHolder = { engine: instances }
  const { url, host, bodyLimit, description, timing } = options
  const contract = openContract(options.contract, options)
  const allHooks = hooksOf(hooks, options)
  const config: ServedRoute = {
    methods: methods.length === app.supportedMethods.length ? ['*'] : methods,
    url: app.prefix + url,
    host,
    contract: contract.name,
    description,
    errorStatus: options.errorStatus ?? (options.contract === 'simplism' ? 500 : 409),
    plugin: plugin.name,
    function: exportName,
    engine: engine.name,
    workers: engine.name === 'workers' ? engine.workers : 0,
    engineReason: engine.name === 'workers' ? engine.reason : undefined,
    get trouble() {
      return holder.engine.trouble
    },
    runtime: runtime.name,
  }
  const calls = { exportName, contract, holder }
  try {
    app.route({
      method: [...methods],
      url,
      constraints: constraintsOf(host),
      bodyLimit,
      config: { wasmServe: config },
      exposeHeadRoute: false, // it is among the methods
      onRequest: [
        acceptAnyContentType,
        ...addHeaders(options.headers),
        ...(timing ? [timingHooks.onRequest] : []),
      ],
      ...(timing && { onSend: timingHooks.onSend }),
      handler: serveRoute(allHooks ? runHookedCalls(calls, allHooks, config) : runCalls(calls), bodyLimit),
    })
  } catch (error) {
    throw new RouteInvalidError(url, (error as Error).message, { cause: error })
  }
}

/** A hook for a route that has headers: so that failures have them too. */
function addHeaders(headers: Readonly<Record<string, string>>): onRequestHookHandler[] {
  if (Object.keys(headers).length === 0) return []
  return [
    (_request, reply, done) => {
      reply.headers(headers)
      done()
    },
  ]
}

/** Fastify refuses content types that it cannot parse, before it asks for a parser; the guest may know them. */
const acceptAnyContentType: onRequestHookHandler = (request, _reply, done) => {
  const { headers } = request.raw
  const type = headers['content-type']
  if (type !== undefined && !MEDIA_TYPE.test(type)) headers['content-type'] = 'application/octet-stream'
  done()
}

const MEDIA_TYPE = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/
