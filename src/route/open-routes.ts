import type { FastifyInstance } from 'fastify'
import type { Meters } from '../observe/metrics.ts'
import type { Tracing } from '../observe/traces.ts'
import type { ConfigMap } from '../options/config-node.ts'
import type { CheckedRouteOptions, CheckedWasmServeOptions } from '../options/options.ts'
import { largestMemory } from '../options/resolved-route.ts'
import { routeLabel } from '../options/served-route.ts'
import { EventLoopYielder, mapWithYields, unlessAborted } from '../platform/event-loop.ts'
import { raiseMemoryCeiling } from '../platform/node-workarounds.ts'
import type { Plugin } from '../plugin/plugin.ts'
import { reportFormerKeys } from './former-keys.ts'
import { claimNames } from './name-conflicts.ts'
import {
  type ChosenRoute,
  chooseRoute,
  loadRoutePlugin,
  type OpenRoute,
  openRoute,
  tryRoute,
} from './open-route.ts'
import { blameRoute, type PlacedRoute } from './route-error.ts'
import { RouteNotices } from './route-notices.ts'
import { type Lease, RoutePool, type RouteUse, startKey } from './route-pool.ts'

/** A route whose calls may be split between two versions of its plug-in. */
export interface VersionedRoute extends CheckedRouteOptions {
  /** The origins of its options, for messages. */
  readonly origins?: ConfigMap | undefined
  /** The second version, and its percentage of calls. */
  readonly next?: { readonly plugin: Plugin; readonly percent: number }
  /** Path or URL of its plug-in. */
  readonly source?: string
  /** The XTP schema that travels with its artifact. */
  readonly xtpSchema?: string | undefined
}

/** Options with split routes. */
export type VersionedOptions = CheckedWasmServeOptions & {
  readonly routes: readonly VersionedRoute[]
  /** The call metrics, if enabled. */
  readonly meters?: Meters | undefined
  /** Creates spans of calls, if tracing is enabled. */
  readonly tracing?: Tracing | undefined
  /** Aborts the opening, which throws its reason. */
  readonly signal?: AbortSignal | undefined
  /** Whether this is a standalone app, where Fastify reads no bodies. Who creates it has checked the names of its plug-ins. */
  readonly isOwnApp?: boolean
  /** Whether this app has no other routes, except those of CORS. */
  readonly isAlone?: boolean
  /** Whether no hook of the app sees answers. */
  readonly isUnwatched?: boolean
  /** Whether an access log reads the length of answers. */
  readonly isLogged?: boolean
  /** Whether routes that are tools are not served at their URLs. */
  readonly hidesTools?: boolean
  /** Time after which a client that reads nothing of its messages is disconnected. Default: 30 s. */
  readonly unreadTimeoutMs?: number
  /** Maximum time in which a message of a WebSocket arrives. Default: 30 s. */
  readonly requestTimeoutMs?: number
}

/** The engine of a route's guests. */
export interface OpenVersions {
  readonly live: OpenRoute
  readonly next?: { readonly route: OpenRoute; readonly percent: number }
}

/** The routes of an app. */
interface OpenRoutes {
  readonly pool: RoutePool
  /** Routes in the order of the options. */
  readonly routes: readonly OpenVersions[]
  /** The number of plug-ins reused from the pool with their instances. */
  readonly kept: number
  close(): Promise<void>
}

/**
 * Opens the resources of routes or reuses them from the pool. If one fails, it closes those that it opened.
 *
 * @param tryOut - Sends the smoke request to a new route.
 * @param knownPool - Default: a pool that closes with the routes.
 * @throws the errors of {@link chooseRoute}, {@link tryRoute} and the start of instances.
 */
export async function openRoutes(
  options: VersionedOptions,
  app: FastifyInstance,
  tryOut: (route: CheckedRouteOptions) => Promise<void>,
  knownPool?: RoutePool,
): Promise<OpenRoutes> {
  const { prefix, log } = app
  const pool = knownPool ?? new RoutePool(options, log)
  const { meters = pool.shared.meters, tracing = pool.shared.tracing } = options
  const shared = { ...pool.shared, meters, tracing }
  const leases: Lease[] = []
  /** Routes whose engine is not open yet. */
  const waiting = new Set<ChosenRoute>()
  let giveUpNames: (() => void) | undefined
  const close = async () => {
    const pace = new EventLoopYielder()
    const ends: Promise<void>[] = []
    for (const each of [...leases, ...waiting]) {
      const ended = each.close()
      ended.catch(() => undefined) // reported below
      ends.push(ended)
      await pace.step()
    }
    try {
      await Promise.all(ends)
    } finally {
      giveUpNames?.()
      if (!knownPool) await pool.close()
    }
  }

  const { signal, trial, stallMs, isOwnApp = false } = options
  const all = options.routes.flatMap(versionsToOpen)
  const loading = { isServing: knownPool !== undefined && trial, signal, log }
  const find = async ({ configured: route, version, index, isLive }: VersionToOpen) => {
    const url = prefix + route.url
    let lease = knownPool?.takeUnchanged(route, version, url)
    if (lease) {
      leases.push(lease)
      return { route, isLive, use: lease.use, lease }
    }
    const asked = ofOnePlugin(route, version)
    const plugin = await loadRoutePlugin(asked, all.length, loading)
    const options = ofOnePlugin(asked, plugin)
    const use: RouteUse = { configured: route, options, plugin, url }
    lease = knownPool?.take(use)
    if (lease) {
      leases.push(lease)
      return { route, isLive, use, lease }
    }
    if (isOwnApp) raiseMemoryCeiling(largestMemory(options, plugin))
    const chosen = await chooseRoute(options, ['routes', String(index)], shared)
    waiting.add(chosen)
    return { route, isLive, use, chosen }
  }

  try {
    // Wait for all: an entry taken from the pool after another one failed has to be returned.
    const found = await mapWithYields(all, (each) => forRoute(each.configured, () => find(each)))
    if (!isOwnApp) {
      const live = found.filter(({ isLive }) => isLive)
      const named = live.map(({ route, use: { options, plugin } }) => {
        const place = () => `route ${routeLabel({ ...route, url: prefix + route.url })}`
        return { options, plugin, source: route.plugin, place }
      })
      giveUpNames = claimNames(app, named)
    }
    if (waiting.size > 0) {
      const routes = found.flatMap(({ chosen, lease }) => chosen ?? lease?.route ?? [])
      await reportFormerKeys(routes, waiting, shared.store, log)
    }
    const trials = new Map<string, Promise<void>>()
    const tryOnce = (use: RouteUse, chosen: ChosenRoute) => {
      const key = startKey(use, chosen.exportName)
      const trial = trials.get(key) ?? tryRoute(chosen, log, signal)
      trials.set(key, trial)
      return trial
    }
    await mapWithYields(found, ({ route: placed, use, lease, chosen }) =>
      forRoute(placed, async () => {
        const { options: route } = use
        if (route.smoke && !lease?.smokePassedFor(route)) {
          await unlessAborted(tryOut(route), signal)
          lease?.markSmokePassed(route)
        } else if (chosen && options.trial) await tryOnce(use, chosen)
      }),
    )
    const pace = new EventLoopYielder()
    const notices = new RouteNotices()
    const ready: Promise<void>[] = []
    const routes: OpenVersions[] = []
    for (const { route: configured, isLive, use, lease, chosen } of found) {
      const taken = lease ?? (chosen && pool.add(use, openRoute(chosen, use.url, stallMs, log)))
      if (!taken) throw new Error('a route was neither reused nor resolved')
      if (taken !== lease) leases.push(taken)
      if (chosen) waiting.delete(chosen)
      const { route } = taken
      notices.note(route)
      const started = forRoute(configured, async () => void (await route.instances.ready))
      started.catch(() => undefined) // reported below
      ready.push(started)
      const first = isLive ? undefined : routes.pop()
      const percent = configured.next?.percent ?? 0
      routes.push(first ? { ...first, next: { route, percent } } : { live: route })
      await pace.step()
      signal?.throwIfAborted()
    }
    await unlessAborted(Promise.all(ready), signal)
    notices.log(options.maxInstances, log)
    const kept = found.filter(({ lease }) => lease).length
    return { pool, routes, kept, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Thousands of routes have a single plug-in that is loaded: their options are not copied. */
function ofOnePlugin<Version extends VersionedRoute['plugin']>(
  route: VersionedRoute,
  plugin: Version,
): CheckedRouteOptions & { readonly plugin: Version } {
  if (!route.next && hasPlugin(route, plugin)) return route
  const { next: _, ...asked } = route
  return { ...asked, plugin }
}

function hasPlugin<Version>(
  route: VersionedRoute,
  plugin: Version,
): route is VersionedRoute & { readonly plugin: Version & VersionedRoute['plugin'] } {
  return route.plugin === plugin
}

/** Runs a step of opening a route, whose failure names the route. */
async function forRoute<Result>(route: PlacedRoute, step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    throw blameRoute(error, route)
  }
}

/** One plug-in of one route. */
interface VersionToOpen {
  readonly configured: VersionedRoute
  readonly version: VersionedRoute['plugin']
  /** Whether it is not the second of two that share the calls. */
  readonly isLive: boolean
  /** The index of the route. */
  readonly index: number
}

function versionsToOpen(configured: VersionedRoute, index: number): VersionToOpen[] {
  const { plugin, next } = configured
  const live = { configured, version: plugin, index, isLive: true }
  return next ? [live, { configured, version: next.plugin, index, isLive: false }] : [live]
}
