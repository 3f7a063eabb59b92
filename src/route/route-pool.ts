import type { RouteHandlerMethod } from 'fastify'
import { START } from '../module/entry-points.ts'
import type { VersionCounts } from '../observe/observe.ts'
import { optionsWhere } from '../options/facts.ts'
import type { CheckedRouteOptions } from '../options/options.ts'
import { resolveRoute } from '../options/resolved-route.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { noteReadAgain, type Plugin } from '../plugin/plugin.ts'
import { type AppResources, openAppResources } from './app-resources.ts'
import type { OpenRoute } from './open-route.ts'
import type { RouteSockets } from './websocket/serve-websocket.ts'

/**
 * Resources that outlive the successive apps of a server: the instances of routes that a reload leaves unchanged, and
 * resources shared by all routes. An app takes entries when it opens and returns them when it closes.
 */
export class RoutePool {
  readonly shared: AppResources
  /** Open routes by URL. */
  readonly #entries = new Map<string, PoolEntry[]>()
  readonly #counts = new WeakMap<OpenRoute['instances'], VersionCounts>()
  readonly #handlers = new WeakMap<object, KnownHandler>()

  constructor(...of: Parameters<typeof openAppResources>) {
    this.shared = openAppResources(...of)
  }

  /** The open entry of a route and its plug-in, if they are the same objects. It stays open until the taker returns it. */
  takeUnchanged(configured: object, plugin: unknown, url: string): Lease | undefined {
    const entries = this.#entries.get(url)
    const entry = entries?.find(({ use }) => use.configured === configured && use.plugin === plugin)
    return entry && this.#lease(entry)
  }

  /**
   * The open entry with instances for this use, if any: the bytes and manifest of its plug-in are equal, and its options
   * as data.
   */
  take(use: RouteUse): Lease | undefined {
    const entries = this.#entries.get(use.url)
    if (!entries) return undefined
    const key = keyOf(use)
    const entry = entries.find((entry) => keyOf(entry.use) === key)
    if (!entry) return undefined
    // Settings that instances do not depend on may have changed.
    noteReadAgain(entry.route.plugin, use.plugin)
    entry.use = use
    entry.route = { ...entry.route, options: resolveRoute(use.options, use.plugin) }
    return this.#lease(entry)
  }

  /** Adds the resources opened for this use. */
  add(use: RouteUse, route: OpenRoute): Lease {
    const entry = { use, route, leases: 0, smoked: use.options }
    this.#entries.set(use.url, [...(this.#entries.get(use.url) ?? []), entry])
    return this.#lease(entry)
  }

  /** The metrics of a route's instances. */
  countsOf({ instances }: OpenRoute): VersionCounts {
    const counts = this.#counts.get(instances) ?? { calls: 0, failures: 0 }
    this.#counts.set(instances, counts)
    return counts
  }

  /**
   * The handler of a route: if it was created before for the same options object, the same one with the same instances.
   *
   * @param place - Where and how it answers, as far as that depends on other routes and on the server.
   */
  handlerOf(
    options: object,
    instances: readonly OpenRoute['instances'][],
    place: string,
    make: () => RouteHandler,
  ): RouteHandler {
    const known = this.#handlers.get(options)
    const isSame = instances.every((each, index) => each === known?.instances[index])
    if (known && isSame && known.place === place) return known.made
    const made = make()
    this.#handlers.set(options, { made, place, instances })
    return made
  }

  /** Only after everything was returned: guests use shared resources to their end. */
  close(): Promise<void> {
    return this.shared.close()
  }

  #lease(entry: PoolEntry): Lease {
    entry.leases++
    let isBack = false
    const remove = () => this.#remove(entry)
    return {
      use: entry.use,
      route: entry.route,
      smokePassedFor: (options) => smokeKey(entry.smoked) === smokeKey(options),
      markSmokePassed(options) {
        entry.smoked = options
      },
      async close() {
        if (isBack) return
        isBack = true
        if (--entry.leases > 0) return
        remove()
        await entry.route.close()
      },
    }
  }

  #remove(entry: PoolEntry): void {
    const { url } = entry.use
    const others = this.#entries.get(url)?.filter((other) => other !== entry) ?? []
    if (others.length > 0) this.#entries.set(url, others)
    else this.#entries.delete(url)
  }
}

/** A route's handler and description. */
export interface RouteHandler {
  readonly config: ServedRoute
  readonly handler: RouteHandlerMethod
  /** The connections of a route with the contract `websocket`. */
  readonly sockets?: RouteSockets | undefined
}

interface KnownHandler {
  readonly made: RouteHandler
  readonly place: string
  readonly instances: readonly OpenRoute['instances'][]
}

/** What instances are opened for. */
export interface RouteUse {
  /** The route as given to the app: the same object as long as nothing about the route changes. */
  readonly configured: object
  readonly options: CheckedRouteOptions
  readonly plugin: Plugin
  /** The URL with the prefix of the app. */
  readonly url: string
}

interface PoolEntry {
  /** Its last use. */
  use: RouteUse
  route: OpenRoute
  leases: number
  /** The options of its last successful smoke request, if it has one. */
  smoked: CheckedRouteOptions
}

/** Options that have no effect on instances. */
const ANSWERS = optionsWhere('route', ({ reach }) => reach === 'answer')

const STARTS = optionsWhere('route', ({ reach = 'instance' }) => reach === 'instance' || reach === 'load')
const INSTANCES = [...STARTS, ...optionsWhere('route', ({ reach }) => reach === 'place')]

function keyOf({ options, plugin }: RouteUse): string {
  return JSON.stringify([identityOf(plugin), options.tool !== undefined, valuesOf(options, INSTANCES)])
}

/** @returns data: no functions. */
function valuesOf(options: CheckedRouteOptions, names: Iterable<string>): unknown[] {
  return Array.from(names, (name): unknown => Reflect.get(options, name))
}

/** Whether the bytes and manifests of two plug-ins are equal. */
export function isSamePlugin(one: Plugin, other: Plugin): boolean {
  return one === other || JSON.stringify(identityOf(one)) === JSON.stringify(identityOf(other))
}

/** The plug-in's bytes and manifest, as data. */
function identityOf({ name, digest, linked, settings }: Plugin): unknown[] {
  const links = linked.map(({ name, module, digest }) => [name, module ? numberOf(module) : digest])
  return [name, digest, links, settings]
}

/**
 * The key under which instances of two routes start alike: a successful start need not be tried again. A
 * plug-in of 300 functions is tried once.
 */
export function startKey({ options, plugin }: RouteUse, exportName: string): string {
  const isTool = options.tool !== undefined
  return JSON.stringify([exportName === START, identityOf(plugin), isTool, valuesOf(options, STARTS)])
}

/** The options that do not affect instances but may affect the answer to a smoke request. */
function smokeKey(options: CheckedRouteOptions): string {
  return JSON.stringify(valuesOf(options, ANSWERS))
}

/** Equal bytes are compiled once, so they are one object while in use. */
const numbers = new WeakMap<object, number>()
let lastNumber = 0

function numberOf(module: object): number {
  const number = numbers.get(module) ?? ++lastNumber
  numbers.set(module, number)
  return number
}

/** The right to use a route's instances. */
export interface Lease {
  readonly use: RouteUse
  /** With the options of this use. */
  readonly route: OpenRoute
  /** Whether the smoke request was passed with these options. */
  smokePassedFor(options: CheckedRouteOptions): boolean
  /** Records a passed smoke request. */
  markSmokePassed(options: CheckedRouteOptions): void
  /** Gives it back. After the last one, the instances close when their calls have ended. */
  close(): Promise<void>
}
