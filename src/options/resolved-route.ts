import type { Isolation } from '../engine/engine.ts'
import type { OutboundOptions } from '../guest/outbound/outbound.ts'
import { PAGE_BYTES } from '../platform/guest-limits.ts'
import { type LoadOptions, memoryMaxOf, type Plugin } from '../plugin/plugin.ts'
import type { AllowedPath, ManifestSettings } from '../plugin/source/manifest.ts'
import type { AnswerOption, LoadOption } from './facts.ts'
import type { CheckedRouteOptions } from './options.ts'

/**
 * A route in which every field has its final value: from its options, else from the manifest of its plug-in, else the
 * default.
 */
export interface ResolvedRoute
  extends Omit<
    CheckedRouteOptions,
    'allowedPaths' | 'isolation' | 'timeoutMs' | 'recycle' | 'recycleMemory'
  > {
  readonly config: Record<string, string>
  readonly errorStatus: number
  readonly allowedPaths: readonly AllowedPath[]
  /** Hosts that its guests may send HTTP requests to. undefined: none. */
  readonly outbound: OutboundOptions | undefined
  /** Pages of 64 KiB of the guest's own memory. */
  readonly memoryMax: number
  /** Bytes of the blocks that guest and host exchange in a call. */
  readonly blockLimit: number
  /** The manifest's limit for them in pages, if no option sets one in bytes. */
  readonly blockPages: number | undefined
  /** Bytes of variables of an instance. */
  readonly varMax: number
  readonly isolation: Isolation
  readonly deadline: Deadline
  readonly kv: { readonly access: 'none' | 'read' | 'readwrite'; readonly namespace: string }
}

/** What instances are made of. An option that reaches only answers is not in it: a reload that changes it keeps the instances. */
export type InstanceOptions = Omit<ResolvedRoute, AnswerOption>

/** How long a guest of a route may run. */
interface Deadline {
  /** undefined: no limit. */
  readonly ms: number | undefined
  /** The origin of the limit. undefined: no option, only the default of routes with threads. */
  readonly from: 'option' | 'manifest' | 'default'
}

/** Default time limit of a guest in a thread. */
const TIMEOUT_MS = 1_000

/** The deadline of a tool made for hyper-mcp, which has none itself, if it may wait for other servers. */
const WAITING_TOOL_TIMEOUT_MS = 30_000

/** Bytes of variables that Extism allows. */
const VAR_MAX = 1_048_576

/** Bytes of a response that Extism allows. */
const HTTP_RESPONSE_MAX = 52_428_800

/** Bytes of blocks that guest and host exchange in a call. */
const BLOCK_LIMIT = 67_108_864

/**
 * Gives a route its final values. Options come from flags, variables and files, merged by {@link mergeConfig}; they win
 * over the manifest, and the manifest over the defaults. The same options and plug-in give the same object.
 */
export function resolveRoute(
  options: CheckedRouteOptions,
  plugin: Pick<Plugin, 'name' | 'settings'>,
): ResolvedRoute {
  const known = resolvedRoutes.get(options)
  if (known?.plugin === plugin) return known.route
  const route = resolve(options, plugin)
  resolvedRoutes.set(options, { plugin, route })
  return route
}

const resolvedRoutes = new WeakMap<
  CheckedRouteOptions,
  { readonly plugin: Pick<Plugin, 'name' | 'settings'>; readonly route: ResolvedRoute }
>()

function resolve(
  options: CheckedRouteOptions,
  { name, settings }: Pick<Plugin, 'name' | 'settings'>,
): ResolvedRoute {
  const { config, errorStatus, allowedPaths, varMax, kv = {}, isolation: _, blockLimit, ...rest } = options
  const { contract } = rest
  const memory = resolveMemory(options, settings)
  const outbound = resolveOutbound(options, settings)
  const timeoutMs = contract === 'hyper-mcp' && outbound ? WAITING_TOOL_TIMEOUT_MS : TIMEOUT_MS
  return {
    config: { ...settings?.config, ...config },
    errorStatus: errorStatus ?? (contract === 'simplism' ? 500 : 409),
    allowedPaths: [
      ...(settings?.allowedPaths ?? []),
      ...Object.entries(allowedPaths).map(resolveAllowedPath),
    ],
    outbound,
    blockPages: blockLimit === undefined ? settings?.memory.maxPages : undefined,
    varMax: varMax ?? settings?.memory.maxVarBytes ?? VAR_MAX,
    isolation: resolveIsolation(options, memory.memoryMax),
    deadline: resolveDeadline(options.timeoutMs, settings?.timeoutMs, timeoutMs),
    kv: { access: kv.access ?? 'readwrite', namespace: kv.namespace ?? name },
    // Behind the others: in Node.js 20, each property after a spread one costs 4 us.
    ...rest,
    ...memory,
  }
}

/** Limits the guest's memory and the blocks. As in Extism's JavaScript SDK, a manifest's `max_pages` limits both. */
function resolveMemory(
  options: CheckedRouteOptions,
  settings: ManifestSettings | undefined,
): Pick<ResolvedRoute, 'memoryMax' | 'blockLimit'> {
  const pages = settings?.memory.maxPages ?? Number.POSITIVE_INFINITY
  return {
    memoryMax: memoryMaxOf(options, settings),
    blockLimit: options.blockLimit ?? Math.min(BLOCK_LIMIT, pages * PAGE_BYTES),
  }
}

/** Pages of the largest memory of a route: the guest's, or the kernel's, which adds a quarter to its blocks. */
export function largestMemory(options: CheckedRouteOptions, { settings }: Pick<Plugin, 'settings'>): number {
  const { blockLimit, memoryMax } = resolveMemory(options, settings)
  return Math.max(memoryMax, Math.ceil((blockLimit * 1.25) / PAGE_BYTES) + 2)
}

/** Options of a route that apply when its plug-in is loaded. */
export type LoadedBy = Pick<CheckedRouteOptions, LoadOption | 'workers'>

/** Number of pages in a 32-bit address space. */
const MAX_PAGES = 65_536

/** Loading options for a plug-in without a route: the memory limit depends on later routes. */
export const ANY_ROUTE: LoadedBy = {
  memoryMax: MAX_PAGES,
  isolation: 'reuse',
  runtime: 'kernel',
  interrupts: 'on',
  load: 'eager',
}

/** The number of plug-ins above which they are loaded on their first calls by default. */
export const MAX_EAGER_PLUGINS = 256

/**
 * How the plug-in of a route is loaded. Routes with equal values share a loaded plug-in.
 *
 * @param plugins - The number of plug-ins that are loaded together.
 */
export function loadedFor(
  { memoryMax, isolation, engine, workers, runtime, interrupts, load }: LoadedBy,
  plugins: number,
) {
  const isLazy = load === 'lazy' || (load === 'auto' && plugins > MAX_EAGER_PLUGINS)
  const compiles = engine === 'subprocess' ? false : isLazy ? 'later' : true
  const kernelMemory = engine === 'workers' || (workers ?? 0) !== 0 ? 'shared' : 'own'
  return { memoryMax, isolation, runtime, interrupts, compiles, kernelMemory } satisfies LoadOptions
}

/**
 * The option replaces the manifest's list, so that an operator can remove hosts that a plug-in requests: `[]` allows
 * none. A manifest from the network opens public addresses only: its names could lead into this machine's network.
 */
function resolveOutbound(
  options: CheckedRouteOptions,
  settings: ManifestSettings | undefined,
): OutboundOptions | undefined {
  const allowedHosts = options.allowedHosts ?? settings?.allowedHosts ?? []
  if (allowedHosts.length === 0) return undefined
  const responseMax = options.httpResponseMax ?? settings?.memory.maxHttpResponseBytes ?? HTTP_RESPONSE_MAX
  return {
    allowedHosts,
    opensPrivate: options.allowedHosts !== undefined || !settings?.isRemote,
    responseMax,
    streamMax: options.httpResponseMax === 0 ? Number.POSITIVE_INFINITY : responseMax,
  }
}

/**
 * Without `recycleMemory` an instance is replaced when it reaches three quarters of the allowed memory. A quarter of
 * the limit must be growth, so that a guest with a large initial memory is not replaced each time.
 */
function resolveIsolation(
  { isolation, recycle, recycleMemory }: CheckedRouteOptions,
  memoryMax: number,
): Isolation {
  const bytes = memoryMax * PAGE_BYTES
  return recycleMemory === undefined
    ? { isolation, recycle, recycleMemory: (bytes * 3) / 4, recycleGrowth: bytes / 4 }
    : { isolation, recycle, recycleMemory, recycleGrowth: 0 }
}

/** A deadline of 0 in the manifest means no deadline. */
function resolveDeadline(
  option: number | undefined,
  manifest: number | undefined,
  otherwise: number,
): Deadline {
  if (option !== undefined) return { ms: option, from: 'option' }
  if (manifest) return { ms: manifest, from: 'manifest' }
  return { ms: manifest === 0 ? undefined : otherwise, from: 'default' }
}

/** `ro:` in front of the host's path, as in Extism: the guest may not write. */
function resolveAllowedPath([path, guest]: [path: string, guest: string]): AllowedPath {
  const readOnly = path.startsWith('ro:')
  return { host: readOnly ? path.slice('ro:'.length) : path, guest, readOnly }
}
