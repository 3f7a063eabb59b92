import type { FastifyInstance, FastifyPluginAsync, onRequestHookHandler, RegisterOptions } from 'fastify'
import fp from 'fastify-plugin'
import { type CheckedRouteOptions, checkWasmServeOptions, type WasmServeOptions } from './config/options.ts'
import { openContract } from './contract/named.ts'
import type { Engine } from './engine/engine.ts'
import { openInline } from './engine/inline.ts'
import { tryInThread } from './engine/workers/trial.ts'
import { openWorkers } from './engine/workers.ts'
import { chooseEngine, type EngineChoice } from './engine-choice.ts'
import { sendRouteError } from './error-response.ts'
import { RouteInvalidError, RuntimeUnfitError, WasiDisabledError } from './errors.ts'
import { loadFunctions } from './functions-module.ts'
import { type HostParts, openHostParts } from './host-parts.ts'
import { addMethodGuards } from './method-guard.ts'
import { chooseExport } from './plugin/callable.ts'
import { isPlugin, loadPlugin, type Plugin } from './plugin/plugin.ts'
import { type EngineHolder, serveRoute } from './route.ts'
import { constraintsOf, methodsOf, refuseConflicts } from './routes-table.ts'
import type { HostFunctions } from './runtime/host-functions.ts'
import { kernel } from './runtime/kernel.ts'
import type { Runtime } from './runtime/runtime.ts'
import { instanceSettings, isolationOf } from './settings.ts'
import { openSharedVars, type SharedVars } from './shared-vars.ts'
import { workersOptions } from './workers-options.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** There on the routes of wasm-serve. */
    wasmServe?: ServedRoute
  }
}

/** What answers at a route; an `onRoute` hook finds it in the route's `config.wasmServe`. */
export interface ServedRoute {
  /** `*` alone: all that the app knows. */
  readonly methods: readonly string[]
  readonly url: string
  /** The only host that it answers to, if it has one. */
  readonly host: string | undefined
  /** `raw`, `http`, `simplism`, or what a contract of the user's own calls itself. */
  readonly contract: string
  readonly description: string | undefined
  /** Status of the answer when the guest says no. */
  readonly errorStatus: number
  readonly plugin: string
  readonly function: string
  readonly engine: string
  /** Threads that run its calls; 0: the event loop. */
  readonly workers: number
  /** Why it has threads; undefined if it has none. */
  readonly engineReason: string | undefined
  /** What is wrong with it at present, in words; undefined if nothing is. */
  readonly trouble: string | undefined
  readonly runtime: string
}

const plugin: FastifyPluginAsync<WasmServeOptions> = async (app, registration) => {
  const { prefix, logLevel, logSerializers, ...ours } = registration as WasmServeOptions & RegisterOptions
  const { routes, trial } = checkWasmServeOptions(ours)
  refuseConflicts(routes, app.supportedMethods)

  app.removeAllContentTypeParsers() // guests get the bytes as they came
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.setErrorHandler(sendRouteError)

  const chosen = await chooseAll(routes, openSharedVars())
  if (trial) await Promise.all(chosen.map((route) => tryRoute(route, app)))
  const opened = await openAll(chosen, app)
  app.addHook('onClose', () => closeAll(opened))
  for (const route of opened) addRoute(app, route, methodsOf(route.options, routes, app.supportedMethods))
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

/** A route with its plug-in loaded and its export chosen. */
interface ChosenRoute {
  readonly options: CheckedRouteOptions
  readonly plugin: Plugin
  readonly exportName: string
  readonly functions: HostFunctions | undefined
  readonly runtime: Runtime
  readonly engine: EngineChoice
  readonly parts: HostParts
}

interface OpenRoute extends ChosenRoute {
  readonly holder: EngineHolder
}

/** Loads the plug-ins and chooses what the routes call: fails before anything is opened. */
async function chooseAll(
  routes: readonly CheckedRouteOptions[],
  sharedVars: SharedVars,
): Promise<ChosenRoute[]> {
  return Promise.all(
    routes.map(async (options, index) => {
      const plugin = await load(options)
      refuseUnfit(options, plugin)
      const engine = chooseEngine(options, plugin, `routes[${index}]`)
      return {
        options,
        plugin,
        exportName: chooseExport(plugin, options.function),
        functions: await loadFunctions(options.functions),
        runtime: await loadRuntime(options.runtime),
        engine,
        parts: await openHostParts(options, plugin, sharedVars),
      }
    }),
  )
}

/** A plug-in that was loaded before is taken as it is. */
async function load({ plugin, links, memoryMax, isolation }: CheckedRouteOptions): Promise<Plugin> {
  if (typeof plugin === 'object' && isPlugin(plugin)) return plugin
  return loadPlugin(plugin, {
    memoryMax,
    isolation,
    links: Object.entries(links).map(([name, source]) => ({ name, source })),
  })
}

/** The SDK's WASI is Node's, which has no environment of ours and lets links lead out of a folder. */
function refuseUnfit(
  { runtime, wasi, env, allowedPaths, vars }: CheckedRouteOptions,
  { name, settings }: Plugin,
): void {
  if (!wasi && Object.keys({ ...env, ...allowedPaths }).length > 0) {
    throw new WasiDisabledError(name, 'environment variables and allowed paths are part of it')
  }
  if (runtime !== 'sdk') return
  if (vars === 'shared') throw new RuntimeUnfitError(name, runtime, 'shared variables')
  if (Object.keys(env).length > 0) throw new RuntimeUnfitError(name, runtime, 'environment variables')
  if (Object.keys(allowedPaths).length + (settings?.allowedPaths.length ?? 0) > 0) {
    throw new RuntimeUnfitError(name, runtime, 'allowed paths')
  }
}

/** The SDK is loaded by those who ask for it. */
async function loadRuntime(name: Runtime['name']): Promise<Runtime> {
  return name === 'sdk' ? (await import('./runtime/sdk.ts')).sdk : kernel
}

/** Threads of its own are a trial enough. Host functions that are objects cannot cross to a thread. */
async function tryRoute({ options, plugin, engine }: ChosenRoute, { log }: FastifyInstance): Promise<void> {
  if (engine.name === 'workers') return
  if (typeof options.functions === 'object') {
    log.warn({ plugin: plugin.name }, 'not tried in a thread: its host functions are objects')
    return
  }
  const settings = instanceSettings(options, plugin, undefined, log)
  const isolation = isolationOf(options, plugin)
  const thread = workersOptions(options, plugin, TRIAL, settings, isolation, NO_PARTS)
  await tryInThread(thread, options.startTimeoutMs)
}

const TRIAL = { name: 'workers', workers: 1, timeoutMs: 1_000, reason: 'trial' } as const

const NO_PARTS = { names: [], operations: {} } as const

/** Opens the engines in parallel; closes those that opened if one fails. */
async function openAll(routes: readonly ChosenRoute[], app: FastifyInstance): Promise<OpenRoute[]> {
  const opened = routes.map((route) => ({ ...route, holder: { engine: openEngine(route, app) } }))
  try {
    await Promise.all(opened.map(({ holder }) => holder.engine.ready))
  } catch (error) {
    await closeAll(opened)
    throw error
  }
  return opened
}

function openEngine(route: ChosenRoute, { log }: FastifyInstance): Engine {
  const { options, plugin, functions, runtime, engine, parts } = route
  const settings = instanceSettings(options, plugin, functions, log)
  const isolation = isolationOf(options, plugin)
  for (const warning of plugin.warnings) log.warn({ plugin: plugin.name }, warning)
  if (engine.name === 'workers') {
    return openWorkers(workersOptions(options, plugin, engine, settings, isolation, parts.bridged))
  }
  const { maxQueue } = options
  return openInline({ plugin, runtime, settings: { ...settings, ...parts.direct }, maxQueue, ...isolation })
}

async function closeAll(routes: readonly OpenRoute[]): Promise<void> {
  await Promise.all(
    routes.map(async ({ holder, parts }) => {
      await holder.engine.close()
      await parts.close()
    }),
  )
}

function addRoute(app: FastifyInstance, route: OpenRoute, methods: string[]): void {
  const { options, plugin, exportName, runtime, engine, holder } = route
  const { url, host, bodyLimit, description } = options
  const contract = openContract(options.contract, options)
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
  try {
    app.route({
      method: [...methods],
      url,
      constraints: constraintsOf(host),
      bodyLimit,
      config: { wasmServe: config },
      exposeHeadRoute: false, // it is among the methods
      onRequest: [acceptAnyContentType, ...addHeaders(options.headers)],
      handler: serveRoute(exportName, contract, holder, bodyLimit),
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
