import { isDeepStrictEqual } from 'node:util'
import { MountConflictError } from '../errors/errors.ts'
import { atLocation, checkNode, withLocation, withRoutes } from '../options/check-config.ts'
import {
  COMMAND_LINE,
  type ConfigMap,
  mapOf,
  mergeMaps,
  nodeAt,
  originAt,
  renderOrigin,
  toData,
} from '../options/config-node.ts'
import { RESTART_OPTIONS } from '../options/facts.ts'
import {
  type CheckedLoadOptions,
  type CheckedRouteOptions,
  type CheckedServerOptions,
  checkLoadOptions,
} from '../options/options.ts'
import { ANY_ROUTE, type LoadedBy, resolveRoute } from '../options/resolved-route.ts'
import { routeConflicts } from '../options/served-route.ts'
import { EventLoopYielder, mapWithYields } from '../platform/event-loop.ts'
import type { LoadContext } from '../plugin/compiled-modules.ts'
import { compilePlugin, type Plugin } from '../plugin/plugin.ts'
import { bytesOf } from '../plugin/source/module-bytes.ts'
import { type SourceOptions, verifyStored } from '../plugin/source/source.ts'
import { chooseEngine } from '../route/engine-choice.ts'
import { type NamedRoute, nameConflicts } from '../route/name-conflicts.ts'
import type { VersionedRoute } from '../route/open-routes.ts'
import { routeFunction } from '../route/route-function.ts'
import { isSamePlugin } from '../route/route-pool.ts'
import type { ConfigurationSource } from './configuration.ts'
import {
  ADMIN,
  type DesiredState,
  overlay,
  type Refuse,
  type RouteTarget,
  sourceOf,
} from './desired-state.ts'
import type { Edits, Version } from './edits.ts'
import { loadOptions, type PluginTable } from './loader.ts'

/** The routes to serve with everything loaded. Nothing is open yet. */
export interface Resolved {
  readonly options: CheckedServerOptions & CheckedLoadOptions & { readonly routes: VersionedRoute[] }
  /** The routes in the order of the options. */
  readonly routes: readonly ResolvedTarget[]
  /** How remote sources are read, and stored modules verified: the same for all changes of a configuration. */
  readonly sources: SourceOptions
  /** The edits in effect. */
  readonly edits: Edits
  /** Skipped items, as text. */
  readonly warnings: readonly string[]
}

/** A route with its loaded plug-in. */
interface ResolvedTarget {
  readonly target: RouteTarget
  readonly plugin: Plugin
  /**
   * Its options and plug-ins: the same object as long as nothing about the route changes, even if it was read again. What
   * outlives a change of other routes, such as connections, is kept for this object.
   */
  readonly options: VersionedRoute
}

/** The context for resolving a desired state. */
export interface Resolving extends LoadContext {
  /** Loaded plug-ins, extended by resolving; bytes of modules that are stored nowhere else. */
  readonly plugins: PluginTable
  /** The current deployment with the same configuration: routes with the same options are not validated again. */
  readonly before?: (Resolved & { readonly desired: DesiredState }) | undefined
  /** The routes that are served now, with any configuration. */
  readonly live?: readonly ResolvedTarget[]
  /** The bytes of a stored module. */
  module(digest: string): Promise<Uint8Array>
  /** The source of the configuration. */
  readonly source: Pick<ConfigurationSource, 'sourceOptions'>
  /** @see {@link overlay} */
  readonly refuse: Refuse
  /** Called with each problem of a route; the others are still checked. */
  failed(error: unknown): void
}

const NO_OPTIONS = mapOf([], COMMAND_LINE)

/**
 * Validates the options of routes, loads missing plug-ins, and selects the functions to call. Unchanged routes stay the
 * same objects.
 *
 * @throws the errors of option validation, plug-in loading and {@link overlay}.
 */
export async function resolve(desired: DesiredState, resolving: Resolving): Promise<Resolved> {
  const { configuration } = desired
  const { before, live = [], refuse, failed } = resolving
  const { targets, edits, warnings } = await overlay(desired, refuse)
  const load = before?.options ?? loadOptionsOf(configuration)
  const sources = before?.sources ?? resolving.source.sourceOptions(load)
  const loading: Loading = { ...resolving, load, sources }
  const pace = new EventLoopYielder()
  const same = new Map(before?.routes.map((route) => [route.target.configured, route]))
  await pace.step()
  const kept: (ResolvedTarget | undefined)[] = []
  for (const target of targets) {
    const route = same.get(target.configured)
    kept.push(route && isSame(route.target, target) ? route : undefined)
    await pace.step()
  }
  const fresh = targets.filter((_, index) => !kept[index])
  const { checked, server } = checkRoutes(fresh, desired, before)
  const loaded = await mapWithYields(fresh, async (target, index) => {
    const options = checked[index]
    if (!options) throw new Error('a route was not validated')
    const versions = loadVersions(target, options, loading).catch((error) => {
      // What was only read with the configuration may be refused when it is compiled.
      throw before ? error : withLocation(error, target.configured, 'plugin')
    })
    return { target, options, ...(await versions) }
  })
  const done = new Map<RouteTarget, ResolvedTarget>()
  const served = new Map<string, ResolvedTarget[]>()
  for (const route of live) served.set(route.options.url, [...(served.get(route.options.url) ?? []), route])
  for (const { target, plugin, next, options } of loaded) {
    if (target.checked || canServe(target.configured, options, plugin, failed)) {
      const origins = target.checked ? undefined : target.configured
      const route = { ...options, plugin, origins, ...(next && { next }), ...sourceOfTool(target, options) }
      const made = { target, plugin, options: route }
      const same = served.get(route.url)?.find((each) => isSameRoute(each, made))
      done.set(target, same ? { ...same, target } : made)
    }
    await pace.step()
  }
  const routes = targets.flatMap((target, index) => kept[index] ?? done.get(target) ?? [])
  await pace.step()
  if (before) await tryUnused(edits, before, routes, loading)
  await pace.step()
  if (!configuration.checked && configuration.problem !== 'file') refuseConflicts(routes, failed) // else already reported
  await pace.step()
  for (const conflict of nameConflicts(routes.map(namedRoute))) failed(conflict)
  await pace.step()
  if (server.processes && done.size > 0) {
    const { refuseUnshared } = await import('./processes/refuse-unshared.ts') // loaded on demand
    refuseUnshared(server, [...done.values()], failed)
  }
  const options = { ...server, ...load, routes: routes.map(({ options }) => options) }
  return { options, routes, sources, edits, warnings }
}

/** The options of a configuration for loading plug-ins. @throws `OptionsError` */
export function loadOptionsOf({ load }: Pick<DesiredState['configuration'], 'load'>): CheckedLoadOptions {
  return atLocation(load, () => checkLoadOptions(toData(load)))
}

/** The schema of a tool is beside its plug-in, or travels with its artifact. */
function sourceOfTool(
  { configured, live }: RouteTarget,
  { tool }: CheckedRouteOptions,
): Pick<VersionedRoute, 'source' | 'xtpSchema'> {
  if (!tool || nodeAt(configured, ['plugin'])?.kind !== 'scalar') return {}
  return { source: sourceOf(configured), xtpSchema: live.companions?.xtpSchema }
}

function isSame(one: RouteTarget, other: RouteTarget): boolean {
  return (
    one.name === other.name &&
    one.live.digest === other.live.digest &&
    one.next?.version.digest === other.next?.version.digest &&
    one.next?.percent === other.next?.percent
  )
}

/** Compares values: what was read again is another object. */
function isSameRoute(one: ResolvedTarget, other: ResolvedTarget): boolean {
  const { plugin: _, origins: _lines, next, ...rest } = one.options
  const { plugin: _other, origins: _otherLines, next: otherNext, ...otherRest } = other.options
  return (
    isSamePlugin(one.plugin, other.plugin) &&
    next?.percent === otherNext?.percent &&
    (next === otherNext || (!!next && !!otherNext && isSamePlugin(next.plugin, otherNext.plugin))) &&
    isDeepStrictEqual(rest, otherRest)
  )
}

/** The options of routes together with the server's: some checks need both. */
function checkRoutes(
  fresh: readonly RouteTarget[],
  { configuration }: DesiredState,
  before: Resolved | undefined,
): { checked: readonly CheckedRouteOptions[]; server: CheckedServerOptions } {
  const known = before?.options ?? configuration.checked
  const nodes = fresh.filter((target) => !target.checked).map(({ configured }) => configured)
  // If the server's own options are invalid, routes are checked without them.
  const server = configuration.problem ? NO_OPTIONS : configuration.server
  const found = known && nodes.length === 0 ? known : checkNode(server, nodes)
  const rest = found.routes.values()
  const checked = fresh.flatMap((target) => target.checked ?? rest.next().value ?? [])
  return { checked, server: known ?? found }
}

/** How missing plug-ins are loaded. */
interface Loading extends Omit<Resolving, 'source'> {
  readonly load: Pick<CheckedLoadOptions, 'moduleLimits' | 'allowGc'>
  readonly sources: SourceOptions
}

async function loadVersions(
  { name, live, next }: RouteTarget,
  options: CheckedRouteOptions,
  loading: Loading,
): Promise<{ plugin: Plugin; next?: VersionedRoute['next'] }> {
  const plugin = await loadVersion(name, live, options, loading)
  if (!next) return { plugin }
  const second = await loadVersion(name, next.version, options, loading)
  return { plugin, next: { plugin: second, percent: next.percent } }
}

async function loadVersion(
  name: string,
  version: Version,
  route: LoadedBy,
  { plugins, load, sources, module, isServing, signal, log }: Loading,
): Promise<Plugin> {
  const known = plugins.get(name, version, route)
  if (known) return known
  const { name: file, settings } = version
  const stored = async (digest: string) => bytesOf(plugins.modules.get(digest) ?? (await module(digest)))
  const read = version.modules.map(async ({ name, digest, place, bundle }) => {
    const signature = bundle === undefined ? undefined : await stored(bundle)
    const origin = place === undefined && !signature ? undefined : { place, bundle: signature }
    const found = { name, digest, bytes: await stored(digest), origin }
    await verifyStored(found, { ...sources, signal })
    return found
  })
  const source = { name, file, modules: await Promise.all(read), settings, warnings: [] }
  const how = {
    ...loadOptions({ ...route, links: {} }, plugins, load, {}),
    isServing,
    signal,
    log,
  }
  const plugin = await compilePlugin(source, how)
  plugins.set(version, route, plugin)
  return plugin
}

/** Loads a new version that no route uses yet, to make sure that it can be loaded later. */
async function tryUnused(
  { plugins }: Edits,
  before: { readonly desired: DesiredState },
  routes: readonly ResolvedTarget[],
  loading: Loading,
): Promise<void> {
  const pace = new EventLoopYielder()
  for (const [name, { versions }] of plugins) {
    await pace.step()
    const known = before.desired.edits.plugins.get(name)?.versions
    if (versions === known) continue
    const isUsed = ({ digest }: Version) =>
      routes.some(({ target }) => target.live.digest === digest || target.next?.version.digest === digest)
    for (const version of versions) {
      if (known?.some(({ digest }) => digest === version.digest) || isUsed(version)) continue
      await loadVersion(name, version, ANY_ROUTE, loading)
    }
  }
}

/** Checks that the plug-in has the function and that an engine supports the route's options. Failures name their origin. */
function canServe(
  node: ConfigMap,
  route: CheckedRouteOptions,
  plugin: Plugin,
  failed: (error: unknown) => void,
): boolean {
  const problems: unknown[] = []
  try {
    atLocation(withRoutes(NO_OPTIONS, [node]), () =>
      chooseEngine(resolveRoute(route, plugin), plugin, ['routes', '0']),
    )
  } catch (error) {
    problems.push(error)
  }
  try {
    routeFunction(route, plugin)
  } catch (error) {
    problems.push(withLocation(error, node, 'function', 'plugin'))
  }
  for (const problem of problems) failed(problem)
  return problems.length === 0
}

function refuseConflicts(routes: readonly ResolvedTarget[], failed: (error: unknown) => void): void {
  const lines = routeConflicts(routes.map(({ options }) => options)).map(
    ({ first, later }) =>
      `  ${routes[later]?.options.url}: ${routes[first]?.target.from} and ${routes[later]?.target.from}`,
  )
  if (lines.length > 0) failed(new MountConflictError(lines.join('\n')))
}

/** A route of the admin API names its plug-in, not a source. */
function namedRoute({ target: { configured, from, checked }, options, plugin }: ResolvedTarget): NamedRoute {
  return {
    plugin,
    options,
    source: checked?.plugin ?? (from === ADMIN.name ? plugin : sourceOf(configured)),
    place() {
      const origin = originAt(configured, ['plugin'])
      return origin.kind === 'file' ? renderOrigin(origin) : `route ${options.url} (${from})`
    },
  }
}

/** All options of a command line with their origins, including those of loading. */
export function optionsOfNode({ configuration }: DesiredState, { routes }: Resolved): ConfigMap {
  const server = configuration.problem ? NO_OPTIONS : configuration.server
  const nodes = routes.map(({ target }) => target.configured)
  return mergeMaps(withRoutes(server, nodes), configuration.load)
}

/** A reload's options, with the start's values for those that cannot change; warnings name the pending ones. */
export function keepWhatStays<Options extends CheckedServerOptions & CheckedLoadOptions>(
  wanted: Options,
  atStart: CheckedServerOptions & CheckedLoadOptions,
): { options: Options; warnings: readonly string[] } {
  const [now, then] = [wanted, atStart].map((options) => new Map<string, unknown>(Object.entries(options)))
  const waiting = [...RESTART_OPTIONS].filter((name) => !isDeepStrictEqual(now?.get(name), then?.get(name)))
  const options = { ...wanted, ...Object.fromEntries(waiting.map((name) => [name, then?.get(name)])) }
  const warning = `changed options that take effect at the next start: ${waiting.join(', ')}`
  return { options, warnings: waiting.length === 0 ? [] : [warning] }
}
