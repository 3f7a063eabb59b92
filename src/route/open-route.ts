import type { FastifyBaseLogger } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import { openInline } from '../engine/inline.ts'
import { type AwakeEngines, openLazy } from '../engine/lazy.ts'
import type { GuestProcesses } from '../engine/subprocess/process-group.ts'
import { openSubprocess } from '../engine/subprocess/subprocess.ts'
import { openSuspending } from '../engine/suspending.ts'
import { slowGuests } from '../engine/turn-scheduler.ts'
import { isDebugged, type StallWatch, watchGuest } from '../engine/watchdog.ts'
import type { GuestLimits } from '../engine/watchdog-state.ts'
import { openWorkers } from '../engine/workers/thread.ts'
import { tryInThread } from '../engine/workers/trial.ts'
import { InstanceStartError, RuntimeUnfitError, WasiDisabledError } from '../errors/errors.ts'
import { type HostFunctions, loadFunctions } from '../guest/host-functions.ts'
import { importsOf, serviceUse } from '../guest/services/service.ts'
import { needsOfKernel, reasonsToWait } from '../guest/services/services.ts'
import { stream } from '../guest/services/stream.ts'
import { importsExchange } from '../guest/streams/stream-imports.ts'
import { initialisersOf, isInitialiser, START } from '../module/entry-points.ts'
import type { ImportedItem } from '../module/module-view.ts'
import { type MeterLabels, meterLabels, type RouteMeter } from '../observe/metrics.ts'
import type { CallListeners } from '../observe/observe.ts'
import { type CheckedRouteOptions, optionsError } from '../options/options.ts'
import { type LoadedBy, loadedFor, type ResolvedRoute, resolveRoute } from '../options/resolved-route.ts'
import { problemAt } from '../options/schema.ts'
import { causesOf, explainLimit, textOf } from '../platform/system-errors.ts'
import type { LoadContext } from '../plugin/compiled-modules.ts'
import { EXTISM_ENV, hostImports, WASI } from '../plugin/host-imports.ts'
import {
  compiledPlugin,
  compilePlugin,
  compileRead,
  isPlugin,
  type LinkedModule,
  type LoadOptions,
  type Plugin,
} from '../plugin/plugin.ts'
import { readSource } from '../plugin/source/source.ts'
import { withCallHooks } from '../runtime/call-hooks.ts'
import { kernel } from '../runtime/kernel.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { STREAMS_PER_THREAD, streamsPerThread } from '../runtime/streaming.ts'
import type { AppResources } from './app-resources.ts'
import {
  chooseEngine,
  type EngineChoice,
  isInterruptible,
  subprocessOptions,
  withFewExports,
  workersOptions,
} from './engine-choice.ts'
import { type GuestServices, instanceSettings, openGuestServices } from './guest-services.ts'
import { routeFunction } from './route-function.ts'

/** A route with its plug-in loaded and all defaults resolved. Nothing runs yet. */
export interface ChosenRoute {
  readonly options: ResolvedRoute
  readonly plugin: Plugin
  readonly exportName: string
  /** Whether its guests stream bodies and responses. */
  readonly streams: boolean
  /** Number of streams that an engine has at a time for each of its threads or processes, or on the event loop. */
  readonly streamsPerThread: number
  /** The user's host functions. */
  readonly functions: HostFunctions | undefined
  readonly runtime: Runtime
  readonly engine: EngineChoice
  readonly services: GuestServices
  /** Resources of the server. */
  readonly processes: GuestProcesses
  readonly awake: AwakeEngines
  /** Metrics and traces, if enabled. */
  readonly listeners: Pick<CallListeners, 'traces'> & { readonly meter: RouteMeter | undefined }
  /** Releases its resources. */
  close(): Promise<void>
}

/**
 * Selects the function and engine of a route.
 *
 * @param path - The route's place in the options, for messages: `routes`, `0`.
 * @throws the errors of {@link routeFunction}, {@link chooseEngine} and the store, {@link RuntimeUnfitError},
 * {@link WasiDisabledError}.
 */
export async function chooseRoute(
  checked: CheckedRouteOptions & { readonly plugin: Plugin },
  path: readonly string[],
  shared: AppResources,
): Promise<ChosenRoute> {
  const { plugin } = checked
  const options = resolveRoute(checked, plugin)
  const exportName = routeFunction(options, plugin)
  refuseUnfit(options, checked, plugin, exportName)
  const runtime = await loadRuntime(options.runtime)
  const users = await loadFunctions(options.functions)
  const { meters, tracing } = shared
  const labels = labelsOf(options, plugin)
  const use = serviceUse(options, plugin, users, shared.store.sync)
  const engine = chooseEngine(options, plugin, path, reasonsToWait(use))
  if (engine.name === 'subprocess' && !plugin.uncompiled) {
    const message = 'it was compiled in this process: for engine subprocess, pass the path, URL or bytes'
    throw optionsError([problemAt([...path, 'plugin'], message)])
  }
  const meter = meters?.of(labels)
  const services = await openGuestServices(options, use, shared, meter).catch((error) => {
    meter?.release()
    throw error
  })
  return {
    options,
    streams: importsExchange(importsOf(stream, use)),
    streamsPerThread: streamLimitOf(engine, plugin, users),
    plugin,
    exportName,
    functions: users,
    runtime,
    engine,
    services,
    processes: shared.processes,
    awake: shared.awake,
    listeners: {
      meter,
      traces: tracing?.of({ ...labels, function: exportName, engine: engine.name }),
    },
    async close() {
      meter?.release()
      await services.close()
    },
  }
}

function streamLimitOf(engine: EngineChoice, plugin: Plugin, users: HostFunctions | undefined): number {
  if (engine.name === 'inline') return STREAMS_PER_THREAD
  return engine.name === 'workers' ? streamsPerThread(plugin, users) : 1
}

function labelsOf({ host = '', url }: ResolvedRoute, { name, digest }: Plugin): MeterLabels {
  return meterLabels(host + url, name, digest)
}

/**
 * Loads the plug-in that a route names. A loaded plug-in is used as it is.
 *
 * @param plugins - The number of plug-ins that are loaded together.
 * @throws the errors of {@link loadPlugin}.
 */
export async function loadRoutePlugin(
  options: Pick<CheckedRouteOptions, 'plugin' | 'links'> & LoadedBy,
  plugins: number,
  place: LoadContext = {},
): Promise<Plugin> {
  const { plugin, links } = options
  if (typeof plugin === 'object' && isPlugin(plugin)) return plugin
  const how: LoadOptions = {
    ...place,
    ...loadedFor(options, plugins),
    links: Object.entries(links).map(([name, source]) => ({ name, source })),
  }
  return compilePlugin(await readSource(plugin, how), how)
}

/**
 * The SDK's WASI is Node's. It has no environment variables here, follows links out of a folder, and does not report the
 * exit status of a program.
 */
function refuseUnfit(
  options: ResolvedRoute,
  checked: CheckedRouteOptions,
  plugin: Plugin,
  exportName: string,
): void {
  const { name, merge } = plugin
  const { runtime, wasi, env, allowedPaths, varMax } = options
  if (!wasi && Object.keys({ ...env, ...checked.allowedPaths }).length > 0) {
    throw new WasiDisabledError(name, 'environment variables and allowed paths are part of it')
  }
  if (runtime !== 'sdk') return
  if (exportName === START) throw new RuntimeUnfitError(name, runtime, `way to run a program (${START})`)
  if (merge?.isMerged)
    throw new RuntimeUnfitError(name, runtime, 'way to open a plug-in loaded for the kernel')
  const [unfit] = needsOfKernel(serviceUse(options, plugin))
  if (unfit !== undefined) throw new RuntimeUnfitError(name, runtime, unfit)
  // To the SDK, 0 is no limit.
  if (varMax === 0 && hostImports(plugin).some(isVarSet))
    throw new RuntimeUnfitError(name, runtime, 'way to disable variables (varMax 0)')
  if (Object.keys(env).length > 0) throw new RuntimeUnfitError(name, runtime, 'environment variables')
  if (allowedPaths.length > 0) throw new RuntimeUnfitError(name, runtime, 'allowed paths')
}

function isVarSet({ module, name }: ImportedItem): boolean {
  return module === EXTISM_ENV && name === 'var_set'
}

/** The SDK is loaded on demand. */
async function loadRuntime(name: Runtime['name']): Promise<Runtime> {
  return name === 'sdk' ? (await import('../runtime/sdk.ts')).sdk : kernel
}

/**
 * Starts the plug-in in a throwaway thread. Skipped for threads or processes, whose start is a sufficient trial, and for
 * host functions that are objects, which cannot be passed to a thread.
 *
 * @throws the error of the start or of its timeout; the reason of the signal.
 */
export async function tryRoute(
  { options, plugin, exportName, engine, services }: ChosenRoute,
  log: FastifyBaseLogger,
  signal?: AbortSignal,
): Promise<void> {
  if (engine.name !== 'inline') return
  if (typeof options.functions === 'object') {
    log.warn({ plugin: plugin.name }, 'no trial start in a thread: its host functions are objects')
    return
  }
  const settings = instanceSettings(options, exportName, undefined, log)
  const forTrial = await services.forTrial()
  const compiled = (await compileRead(plugin, { isServing: true, signal, log })) ?? compiledPlugin(plugin)
  const thread = workersOptions(options, compiled, exportName, TRIAL, settings, forTrial)
  const startMs = await tryInThread(thread, options.startTimeoutMs, signal)
  if (startMs < SLOW_TRIAL_MS) return
  const message = `an instance took ${Math.round(startMs)} ms to start in its trial. A start on the event loop blocks all requests for that time: use threads (--workers 1)`
  log.warn({ plugin: plugin.name, startMs: Math.round(startMs) }, message)
}

/** A change may block the event loop for 20 ms. A trial is slower: V8 has compiled nothing in a new thread. */
const SLOW_TRIAL_MS = 50

const TRIAL = { name: 'workers', workers: 1, timeoutMs: 1_000, reason: 'trial' } as const

/** The running engine of a route's guests. */
export interface OpenRoute extends ChosenRoute {
  readonly instances: Engine
  /** Closes all resources after the calls have ended. */
  close(): Promise<void>
}

/**
 * Opens the engine of a route. Its `ready` reports whether that succeeds.
 *
 * @param url - With the prefix of the app, for the watchdog's last log line.
 * @param stallMs - How long a guest may block the event loop; 0: without limit.
 */
export function openRoute(
  route: ChosenRoute,
  url: string,
  stallMs: number,
  log: FastifyBaseLogger,
): OpenRoute {
  for (const warning of route.plugin.warnings) log.warn({ plugin: route.plugin.name }, warning)
  const open = route.plugin.compile ? openLazyEngine : openEngine
  const watching = { stallMs, open: (limits: GuestLimits) => openWatch(route, url, limits, log) }
  const engine = open(route, watching, log)
  const instances = route.services.serveRequests(engine)
  const { meter } = route.listeners
  meter?.opened(instances)
  return {
    instances,
    ...route,
    async close() {
      try {
        await instances.close()
      } finally {
        meter?.closed(instances)
        await route.services.close()
      }
    },
  }
}

/** How guests on the event loop are watched. */
interface Watching {
  readonly stallMs: number
  /** Starts to watch a guest, if it has a limit. */
  open(limits: GuestLimits): StallWatch | undefined
}

/** The plug-in is loaded by the first call, and loaded again after its instances were closed. */
function openLazyEngine(route: ChosenRoute, watching: Watching, log: FastifyBaseLogger): Engine {
  const { options, plugin, engine, awake } = route
  let isTried = false
  return openLazy({
    name: engine.name,
    async open() {
      try {
        const compiled = await compileRead(plugin, { isServing: true, log })
        const loaded = { ...route, plugin: compiled ?? plugin }
        if (!isTried && runsCodeAtStart(loaded.plugin)) await tryRoute(loaded, log)
        isTried = true
        return openEngine(loaded, watching, log)
      } catch (error) {
        if (error instanceof InstanceStartError) throw error
        const reason = explainLimit(error) ?? (error instanceof Error ? error.message : String(error))
        throw new InstanceStartError(plugin.name, reason, { cause: error })
      }
    },
    failed(error) {
      const [reason, ...causes] = causesOf(error).map(textOf)
      log.error({ plugin: plugin.name, reason, cause: causes.at(-1) }, 'a plug-in was not loaded')
    },
    instances: instancesOf(route),
    maySleep: !keepsMemory(route),
    maxQueue: options.maxQueue,
    maxQueueBytes: options.maxQueueBytes,
    maxWaitMs: options.maxWaitMs,
    awake,
  })
}

/** The number of instances that a route opens. */
export function instancesOf({ engine, options }: ChosenRoute): number {
  return engine.name === 'inline' ? 1 : engine.workers + options.spareWorkers
}

/** Whether closing the unused instances of a route would lose their memory. */
export function keepsMemory({ options: { sleep, isolation } }: ChosenRoute): boolean {
  return !sleep && isolation.isolation !== 'fresh'
}

/** Whether code of a plug-in runs when an instance is opened, and may not return: on the event loop, that blocks all. */
function runsCodeAtStart(plugin: Plugin): boolean {
  if (plugin.startsBriefly && plugin.linked.length === 0) return false
  return [plugin, ...plugin.linked].some(runsAtStart)
}

function runsAtStart({ hasStart, exports, imports }: LinkedModule): boolean {
  if (hasStart) return true
  // A module may have 100,000 exports: only the few names that matter are collected.
  const names = new Set<string>()
  for (const { kind, name } of exports) if (kind === 'function' && isInitialiser(name)) names.add(name)
  return (
    initialisersOf(
      names,
      imports.some(({ module }) => module === WASI),
    ).length > 0
  )
}

/** Without a watchdog there is no thread that could interrupt a guest, unless a deadline asks for one; 0: no deadline. */
function inlineDeadlineMs({ deadline }: Pick<ChosenRoute['options'], 'deadline'>, stallMs: number): number {
  return stallMs === 0 && deadline.from === 'default' ? 0 : (deadline.ms ?? 0)
}

function openEngine(route: ChosenRoute, watching: Watching, log: FastifyBaseLogger): Engine {
  const { options, plugin, exportName, functions, engine, services } = route
  const settings = instanceSettings(options, exportName, functions, log)
  const isStreaming = services.names.includes(stream.name)
  const concurrent = isStreaming ? route.streamsPerThread : 1
  if (engine.name === 'workers') {
    const compiled = compiledPlugin(plugin)
    return openWorkers(workersOptions(options, compiled, exportName, engine, settings, services, concurrent))
  }
  if (engine.name === 'subprocess') return openSubprocess(subprocessOptions(route, engine, settings))
  const { maxQueue, maxQueueBytes, maxWaitMs } = options
  const deadlineMs = isInterruptible(plugin) ? inlineDeadlineMs(options, watching.stallMs) : 0
  if (deadlineMs === 0 && options.deadline.from !== 'default')
    log.warn(
      { plugin: plugin.name },
      'its guests cannot be interrupted: no deadline terminates them on the event loop',
    )
  const inline = {
    plugin: withFewExports(compiledPlugin(plugin), exportName, options),
    runtime: route.runtime,
    settings,
    maxQueue,
    maxQueueBytes,
    watch: watching.open({ stallMs: watching.stallMs, deadlineMs }),
    timeoutMs: deadlineMs,
    ...options.isolation,
  }
  if (isStreaming) return openSuspending({ ...inline, services, concurrent, maxWaitMs })
  const guest = services.onEventLoop(functions)
  return openInline({
    ...inline,
    runtime: withCallHooks(route.runtime, guest.calls),
    settings: { ...settings, ...guest.settings },
    turns: slowGuests,
  })
}

function openWatch(
  { plugin, exportName }: ChosenRoute,
  url: string,
  limits: GuestLimits,
  log: FastifyBaseLogger,
): StallWatch | undefined {
  if (isDebugged() || (limits.stallMs === 0 && limits.deadlineMs === 0)) return undefined
  const guest = {
    plugin: plugin.name,
    function: exportName,
    route: url,
    ...limits,
    runsAtStart: runsCodeAtStart(plugin),
  }
  return watchGuest(guest, (failure) => {
    if (failure)
      log.error(
        { err: failure },
        'the watchdog has failed: a guest that does not return will not be detected',
      )
    else log.info('the watchdog runs again')
  })
}
