import { isDeepStrictEqual } from 'node:util'
import { MountConflictError } from '../errors/errors.ts'
import { atLocation, checkNode, withLocation, withRoutes } from '../options/check-config.ts'
import {
  COMMAND_LINE,
  type ConfigMap,
  mapOf,
  nodeAt,
  originAt,
  renderOrigin,
} from '../options/config-node.ts'
import type { CheckedRouteOptions, CheckedServerOptions } from '../options/options.ts'
import { resolveRoute } from '../options/resolved-route.ts'
import { routeConflicts } from '../options/served-route.ts'
import { EventLoopYielder, mapWithYields } from '../platform/event-loop.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { chooseEngine } from '../route/engine-choice.ts'
import { type NamedRoute, nameConflicts } from '../route/name-conflicts.ts'
import type { VersionedRoute } from '../route/open-routes.ts'
import { routeFunction } from '../route/route-function.ts'
import { isSamePlugin } from '../route/route-pool.ts'
import { ADMIN, type Configuration, type RouteTarget, sourceOf } from './desired-state.ts'
import { type Loading, loadVersion } from './loader.ts'

/** A route with its loaded plug-in. */
export interface ResolvedTarget {
  readonly target: RouteTarget
  readonly plugin: Plugin
  /**
   * Its options and plug-ins: the same object as long as nothing about the route changes, even if it was read again. What
   * outlives a change of other routes, such as connections, is kept for this object.
   */
  readonly options: VersionedRoute
  /** Its plug-ins as they were read last, if it stays the same although it was read again. */
  readonly again?: readonly [live: Plugin, next: Plugin | undefined]
}

/** The context for resolving new routes. */
interface ResolvingNew extends Loading {
  /** The options of the server, if they were validated. */
  readonly known: CheckedServerOptions | undefined
  /** Whether the configuration was read again. */
  readonly isReread: boolean
  /** The routes that are served now, with any configuration. */
  readonly live: readonly ResolvedTarget[]
  /** Called with each problem of a route; the others are still checked. */
  failed(error: unknown): void
}

/**
 * Validates the options of routes that are new or have changed, loads their plug-ins, and selects the functions to call.
 * A route that was only read again stays the same object.
 *
 * @returns the routes that can be served, and the options of the server.
 * @throws the errors of option validation and plug-in loading.
 */
export async function resolveNew(
  targets: readonly RouteTarget[],
  configuration: Configuration,
  resolving: ResolvingNew,
): Promise<{ made: ReadonlyMap<RouteTarget, ResolvedTarget>; server: CheckedServerOptions }> {
  const { known, isReread, live, failed } = resolving
  const { checked, server } = checkRoutes(targets, configuration, known)
  const loaded = await mapWithYields(targets, async (target, index) => {
    const options = checked[index]
    if (!options) throw new Error('a route was not validated')
    const versions = loadVersions(target, options, resolving).catch((error) => {
      // What was only read with the configuration may be refused when it is compiled.
      throw isReread ? withLocation(error, target.configured, 'plugin') : error
    })
    return { target, options, ...(await versions) }
  })
  const pace = new EventLoopYielder()
  const made = new Map<RouteTarget, ResolvedTarget>()
  const served = new Map<string, ResolvedTarget[]>()
  for (const route of live) served.set(route.options.url, [...(served.get(route.options.url) ?? []), route])
  for (const { target, plugin, next, options } of loaded) {
    const origins = target.checked ? undefined : target.configured
    const route = { origins, ...options, plugin, ...(next && { next }), ...sourceOfTool(target, options) }
    if (target.checked || canServe(target.configured, route, plugin, failed)) {
      const own: ResolvedTarget = { target, plugin, options: route }
      const same = served.get(route.url)?.find((each) => isSameRoute(each, own))
      const kept: ResolvedTarget | undefined = same && {
        target,
        plugin: same.plugin,
        options: same.options,
        again: [plugin, next?.plugin],
      }
      made.set(target, kept ?? own)
    }
    await pace.step()
  }
  return { made, server }
}

/** The options of routes together with the server's: some checks need both. */
function checkRoutes(
  targets: readonly RouteTarget[],
  configuration: Configuration,
  known: CheckedServerOptions | undefined,
): { checked: readonly CheckedRouteOptions[]; server: CheckedServerOptions } {
  const nodes = targets.filter((target) => !target.checked).map(({ configured }) => configured)
  const found = known && nodes.length === 0 ? known : checkNode(serverNodeOf(configuration), nodes)
  const rest = found.routes.values()
  const checked = targets.flatMap((target) => target.checked ?? rest.next().value ?? [])
  return { checked, server: known ?? found }
}

const NO_OPTIONS = mapOf([], COMMAND_LINE)

/** The options of the server. If they are invalid, routes are checked without them. */
export function serverNodeOf({ problem, server }: Configuration): ConfigMap {
  return problem ? NO_OPTIONS : server
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

/** The schema of a tool is beside its plug-in, or travels with its artifact. */
function sourceOfTool(
  { configured, live }: RouteTarget,
  { tool }: CheckedRouteOptions,
): Pick<VersionedRoute, 'source' | 'xtpSchema'> {
  if (!tool || nodeAt(configured, ['plugin'])?.kind !== 'scalar') return {}
  return { source: sourceOf(configured), xtpSchema: live.companions?.xtpSchema }
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

/**
 * Reports conflicts of routes with one another: their URLs, the names of their plug-ins, and what serving processes cannot share.
 *
 * @param made - Those that are new. The others have no conflicts among themselves.
 */
export async function reportConflicts(
  routes: readonly ResolvedTarget[],
  made: readonly ResolvedTarget[],
  { checked, problem }: Configuration,
  server: CheckedServerOptions,
  failed: (error: unknown) => void,
): Promise<void> {
  const pace = new EventLoopYielder()
  if (!checked && problem !== 'file') refuseConflicts(routes, failed) // else already reported
  await pace.step()
  for (const conflict of nameConflicts(routes.map(namedRoute))) failed(conflict)
  await pace.step()
  if (!server.processes) return
  const { refuseUnshared } = await import('./processes/refuse-unshared.ts') // loaded on demand
  refuseUnshared(server, made, failed)
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
