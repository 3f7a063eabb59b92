import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { GuestProcesses } from '../engine/subprocess/process-group.ts'
import { type ProcessNeeds, pathsOfFolder, readsOfModule } from '../engine/subprocess/sandbox.ts'
import type { SubprocessOptions } from '../engine/subprocess/subprocess.ts'
import { HostBridge } from '../engine/workers/host-bridge.ts'
import type { WorkersOptions } from '../engine/workers/thread.ts'
import { OUTBOUND } from '../guest/services/http.ts'
import { serviceUse } from '../guest/services/service.ts'
import { reasonsToWait } from '../guest/services/services.ts'
import { EXCHANGES, REQUESTS, stream } from '../guest/services/stream.ts'
import { takesMessages } from '../guest/streams/stream-imports.ts'
import { INITIALISERS } from '../module/entry-points.ts'
import { shortened } from '../module/few-exports.ts'
import { STREAM_LIMITS } from '../options/facts.ts'
import { optionsError, type RouteOptions } from '../options/options.ts'
import type { InstanceOptions, ResolvedRoute } from '../options/resolved-route.ts'
import { problemAt } from '../options/schema.ts'
import { PAGE_BYTES } from '../platform/guest-limits.ts'
import type { CompiledPlugin, Plugin } from '../plugin/plugin.ts'
import type { AllowedPath } from '../plugin/source/manifest.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'
import { suspensionProblem } from '../runtime/streaming.ts'
import type { GuestServices } from './guest-services.ts'

/** Where the instances of a route run. */
export type EngineChoice =
  | { readonly name: 'inline' }
  | {
      readonly name: 'workers'
      readonly workers: number
      /** undefined: guests may run without limit. */
      readonly timeoutMs: number | undefined
      /** The reason for the choice. */
      readonly reason: string
    }
  | {
      readonly name: 'subprocess'
      /** The number of processes. */
      readonly workers: number
      /** undefined: guests may run without limit. */
      readonly timeoutMs: number | undefined
      /** The reason for the choice. */
      readonly reason: string
    }

/**
 * Chooses the engine of a route: the event loop, unless the route asks for threads or for a feature that needs them: waiting
 * for other servers or the store, or a deadline if its guests cannot be interrupted. Processes run only on request.
 *
 * @param path - The route's place in the options, for messages: `routes`, `0`.
 * @param waitsFor - What its guests would have to wait for on the event loop. Default: what is known without the
 * user's host functions and the store.
 * @throws {@link OptionsError} if options exclude each other.
 */
export function chooseEngine(
  route: ResolvedRoute,
  plugin: Plugin,
  path: readonly string[],
  waitsFor: readonly string[] = reasonsToWait(serviceUse(route, plugin)),
): EngineChoice {
  const reason = reasonForThreads(route, plugin, waitsFor)
  const problems = exclusiveOptions(route, plugin, reason, waitsFor)
  if (problems.length > 0) {
    throw optionsError(problems.map(({ option, message }) => problemAt([...path, option], message)))
  }
  const name = reasonForProcess(route, plugin) === undefined ? 'workers' : 'subprocess'
  if (!reason || route.engine === 'inline') return { name: 'inline' }
  const workers = route.workers === 'auto' ? availableParallelism() : route.workers
  return {
    name,
    workers: workers || (isStreaming(waitsFor) ? STREAM_WORKERS : 1),
    timeoutMs: route.deadline.ms,
    reason,
  }
}

function isStreaming(waitsFor: readonly string[]): boolean {
  return waitsFor.includes(EXCHANGES) || waitsFor.includes(REQUESTS)
}

/** Default number of threads or processes of a route whose guests stream: some have one exchange at a time. */
const STREAM_WORKERS = 4

/** The reason that only a process can run its guests; undefined if there is none. */
function reasonForProcess(
  { engine }: { readonly engine?: ResolvedRoute['engine'] | undefined },
  { needsProcess }: Plugin,
): string | undefined {
  return engine === 'subprocess' ? '--engine subprocess' : needsProcess
}

function reasonForThreads(
  route: ResolvedRoute,
  plugin: Plugin,
  waitsFor: readonly string[],
): string | undefined {
  const { engine, workers, deadline } = route
  const needed = reasonForProcess(route, plugin)
  if (needed !== undefined) return needed
  if (workers) return `--workers ${workers}`
  if (engine === 'workers') return '--engine workers'
  const needsEnd = !hasDeadlines(route, plugin)
  if (needsEnd && deadline.from === 'option') return '--timeout'
  if (needsEnd && deadline.from === 'manifest') return "the manifest's timeout_ms"
  if (waitsFor.includes(OUTBOUND)) return OUTBOUND
  // A call of a tool can be cancelled, and become a task, only while the event loop turns. Function objects cannot go to a thread.
  if (route.tool && engine === undefined && typeof route.functions !== 'object') return 'MCP tool'
  return waitsFor[0]
}

interface Conflict {
  readonly option: keyof RouteOptions
  readonly message: string
}

/** Options of the route that exclude each other. */
function exclusiveOptions(
  route: ResolvedRoute,
  plugin: Plugin,
  reason: string | undefined,
  waitsFor: readonly string[],
): Conflict[] {
  const { engine, workers, deadline, functions, runtime, process, load } = route
  const needsLimit = 'must be 1 or more: only a plug-in that streams can do without a limit'
  const problems: Conflict[] = STREAM_LIMITS.filter(
    (name) => !waitsFor.includes(EXCHANGES) && route[name] === 0,
  ).map((option) => ({ option, message: needsLimit }))
  if (route.websocketPer === 'connection' && !takesMessages(plugin)) {
    const message = 'must be message: the plug-in does not import ws_receive of wasm-serve:http'
    problems.push({ option: 'websocketPer', message })
  }
  const isProcess = reasonForProcess({ engine }, plugin) !== undefined
  if (process !== undefined && !isProcess)
    problems.push({ option: 'process', message: 'only engine subprocess has processes' })
  if (engine === 'subprocess' && load === 'lazy')
    problems.push({
      option: 'load',
      message: 'must be auto or eager: processes load their plug-in at the start',
    })
  if (!reason) return problems
  if (workers === 0 && engine !== 'inline') {
    const what = isProcess ? 'a process' : 'a thread'
    problems.push({ option: 'workers', message: `must be 1 or more: ${reason} needs ${what}` })
  }
  if (isProcess && engine !== undefined && engine !== 'subprocess')
    problems.push({ option: 'engine', message: `its ${plugin.needsProcess} need engine subprocess` })
  if (isProcess && runtime === 'sdk')
    problems.push({
      option: 'runtime',
      message: `processes (${reason}) support only the kernel runtime, not the sdk`,
    })
  if (engine === 'inline') {
    const problem = isStreaming(waitsFor) ? suspensionProblem(plugin) : undefined
    if (problem !== undefined)
      problems.push({ option: 'engine', message: `${problem}, so it needs a thread: remove engine inline` })
    if (workers)
      problems.push({ option: 'workers', message: 'engine inline has no threads: remove it to use threads' })
    const message =
      'a guest on the event loop cannot be terminated if it has host functions or does not check for interrupts: remove engine inline, or the deadline'
    if (hasDeadlines(route, plugin)) return problems
    if (deadline.from === 'option') problems.push({ option: 'timeoutMs', message })
    else if (deadline.from === 'manifest')
      problems.push({ option: 'engine', message: `the manifest sets timeout_ms, and ${message}` })
  } else if (typeof functions === 'object') {
    const what = isProcess ? 'processes' : 'threads'
    const message = `${what} (${reason}) cannot receive function objects: name the module that exports them`
    problems.push({ option: 'functions', message })
  }
  return problems
}

/** Delay after the first failed start of a thread or process. */
const BACKOFF_MS = 1_000

type ServicesOfThreads = Pick<GuestServices, 'names' | 'run'>

/**
 * Whether a deadline ends the calls of a route on the event loop. Nothing ends a host function of the user's module there. A plug-in
 * that is compiled later is taken to be as most are.
 */
function hasDeadlines({ interrupts, runtime, functions }: ResolvedRoute, plugin: Plugin): boolean {
  if (interrupts === 'off' || runtime !== 'kernel' || typeof functions === 'string') return false
  return plugin.compile !== undefined || isInterruptible(plugin)
}

/** Whether the guests of a plug-in end when they are interrupted. */
export function isInterruptible(plugin: Plugin): boolean {
  return [plugin, ...plugin.linked].every((module) => module.isInterruptible)
}

/** The settings of a route's threads. @param concurrent - Number of calls that a thread has at a time, while their guests are suspended. */
export function workersOptions(
  options: InstanceOptions,
  whole: CompiledPlugin,
  exportName: string,
  { workers, timeoutMs = Number.POSITIVE_INFINITY }: Extract<EngineChoice, { name: 'workers' }>,
  instances: InstanceSettings,
  services: ServicesOfThreads,
  concurrent = 1,
): WorkersOptions {
  const { spareWorkers, startTimeoutMs, idempotent, maxQueue, maxQueueBytes, maxWaitMs, runtime } = options
  const { functions: _functions, log, ...settings } = instances
  const plugin = withFewExports(whole, exportName, options)
  const { name, digest, module, fewExports, resettable, merge, memories, imports, exports, linked } = plugin
  return {
    plugin: { name, digest, module, fewExports, resettable, merge, memories, imports, exports, linked },
    runtime,
    isInterruptible: isInterruptible(whole),
    route: (options.host ?? '') + options.url,
    settings,
    functions: typeof options.functions === 'string' ? options.functions : undefined,
    isolation: options.isolation,
    services: services.names,
    bridge: new HostBridge(services, Number.isFinite(timeoutMs)),
    concurrent,
    log,
    workers,
    spareWorkers,
    startTimeoutMs,
    backoffMs: BACKOFF_MS,
    timeoutMs,
    idempotent: idempotent && isRepeatable(services),
    maxQueue,
    maxQueueBytes,
    maxWaitMs,
  }
}

/** A lost guest may have read a part of its body, or have started its answer. */
function isRepeatable({ names }: ServicesOfThreads): boolean {
  return !names.includes(stream.name)
}

/**
 * The plug-in with only the exports that a route needs. A module may have 100,000 exports: posting them to a thread, or
 * searching them for each route, would block the event loop.
 */
export function withFewExports(
  plugin: CompiledPlugin,
  exportName: string,
  { functions, runtime, contract }: InstanceOptions,
): CompiledPlugin {
  if (contract === 'hyper-mcp') return plugin // it has several functions
  if (plugin.linked.length > 0 || functions !== undefined || runtime !== 'kernel') return plugin
  const exports = shortened(plugin.exports, [exportName, ...INITIALISERS])
  return exports === plugin.exports ? plugin : { ...plugin, exports }
}

const MIB = 1_048_576

/** MiB of JavaScript heap in addition to the limit of a guest's garbage-collected types. */
const OWN_HEAP_MIB = 64

/** Memory of a process besides its guests', in bytes: Node.js itself, stacks, compiled code. */
const OWN_BYTES = 1_024 * MIB

/** The settings of a route that its processes depend on. */
interface RouteParts {
  readonly options: InstanceOptions
  readonly plugin: Plugin
  readonly services: ServicesOfThreads
  readonly processes: GuestProcesses
}

/** The settings of a route's processes. */
export function subprocessOptions(
  { options, plugin, services, processes }: RouteParts,
  { workers, timeoutMs = Number.POSITIVE_INFINITY }: Extract<EngineChoice, { name: 'subprocess' }>,
  instances: InstanceSettings,
): SubprocessOptions {
  const { spareWorkers, startTimeoutMs, idempotent, maxQueue, maxQueueBytes, maxWaitMs } = options
  const { functions: _functions, log, ...settings } = instances
  const wasi = settings.wasi && {
    ...settings.wasi,
    allowedPaths: (settings.wasi.allowedPaths ?? []).map(absolute),
  }
  const functions = typeof options.functions === 'string' ? resolve(options.functions) : undefined
  return {
    plugin: { name: plugin.name, digest: plugin.digest, modules: plugin.uncompiled ?? [] },
    settings: { ...settings, wasi },
    functions,
    isolation: options.isolation,
    services: services.names,
    bridge: new HostBridge(services, Number.isFinite(timeoutMs)),
    group: processes.group(options.process),
    needs: needsOf(
      options.memoryMax * PAGE_BYTES * (1 + plugin.linked.length),
      settings.blockLimit,
      functions,
      wasi?.allowedPaths,
    ),
    log,
    workers,
    spareWorkers,
    startTimeoutMs,
    backoffMs: BACKOFF_MS,
    timeoutMs,
    idempotent: idempotent && isRepeatable(services),
    maxQueue,
    maxQueueBytes,
    maxWaitMs,
  }
}

/**
 * Garbage-collected types live in the JavaScript heap. It may become as large as the guest's memory, so that the limit
 * is the same whichever a guest uses.
 */
function needsOf(
  memoryBytes: number,
  blockLimit: number,
  functions: string | undefined,
  folders: readonly AllowedPath[] = [],
): ProcessNeeds {
  const heapMiB = OWN_HEAP_MIB + Math.ceil(memoryBytes / MIB)
  return {
    heapMiB,
    // During a replacement both instances exist, and exchanged data is copied.
    dataBytes: OWN_BYTES + 2 * heapMiB * MIB + 2 * memoryBytes + 4 * blockLimit,
    reads: [...(functions === undefined ? [] : readsOfModule(functions)), ...folders.flatMap(optionPaths)],
    writes: folders.filter(({ readOnly }) => !readOnly).flatMap(optionPaths),
  }
}

function optionPaths({ host }: AllowedPath): string[] {
  return pathsOfFolder(host)
}

/** Absolute, because a process has another working directory. */
function absolute(path: AllowedPath): AllowedPath {
  return { ...path, host: resolve(path.host) }
}
