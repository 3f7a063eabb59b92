import { METHODS } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { RouteConflictError } from '../errors/errors.ts'
import type { VersionCounts } from '../observe/observe.ts'

/** A route and the plug-in behind it; an `onRoute` hook finds it in the route's `config.wasmServe`. */
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
  /** SHA-256 of the plug-in's main module, in hex. */
  readonly digest: string
  readonly function: string
  readonly engine: string
  /** Threads that run its calls; 0: the event loop. */
  readonly workers: number
  /** Why it has threads; undefined if it has none. */
  readonly engineReason: string | undefined
  /** Its present problem, in words; undefined if it has none. */
  readonly trouble: string | undefined
  readonly runtime: string
  /** The second version of the plug-in, if calls are split between two. */
  readonly split?: RouteSplit | undefined
}

/** How the calls of a route are split between two versions of its plug-in. */
export interface RouteSplit {
  /** SHA-256 of the second one's main module, in hex. */
  readonly digest: string
  /** The engine of the second one, which may differ from that of the first. */
  readonly engine: string
  /** Threads that run the calls of the second one; 0: the event loop. */
  readonly workers: number
  /** How many calls of 100 it gets. */
  readonly percent: number
  /** Of the first and the second, since they were opened. */
  readonly counts: readonly [VersionCounts, VersionCounts]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** There on the routes of wasm-serve. */
    wasmServe?: ServedRoute
  }
}

/**
 * Functions of the user around the calls of guests: as options of the Fastify plugin or of {@link createServer} for all
 * routes, as options of a route for that one. Those for all come first.
 *
 * A request becomes a call when its body was read: no hook sees earlier refusals (404, 405, 413). Each call ends with one
 * call of `onResult` or `onError`, unless `onCall` never settles.
 */
export interface CallHooks {
  /**
   * Called before the guest. The request waits for what it returns.
   *
   * @returns Bytes that the guest gets in place of its input, or nothing. A promise for either will do.
   * @throws anything, to refuse the call: the guest is not run, and the error is answered as any is. In the words of
   * wasm-serve that is a {@link CallRefusedError}; another goes to the error handler of the app, which in Fastify
   * answers with its `statusCode`.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a hook that returns nothing need not say so
  onCall?: ((call: GuestCall) => Uint8Array | void | Promise<Uint8Array | void>) | undefined

  /** Called once the answer is being sent. Errors that it throws are logged, and change nothing. */
  onResult?: ((result: GuestResult) => unknown) | undefined

  /** Called once an error is being sent in place of an answer. Errors that it throws are logged, and change nothing. */
  onError?: ((failure: FailedCall) => unknown) | undefined
}

/** A guest is about to be called. */
export interface GuestCall {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /**
   * The input that the contract made of the request, or its replacement by an earlier hook. The engine owns it when the
   * hook has ended: copy it to keep it.
   */
  readonly input: Uint8Array
}

/** A guest was called, and its output was answered. */
export interface GuestResult {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /** The guest's output, before the contract made an answer of it. It may still be in transit: do not change it. */
  readonly output: Uint8Array
  /** Time of the call, waiting for its turn included; not that of `onCall`. */
  readonly ms: number
}

/** There was no answer: a hook refused the call, the guest or its engine failed, or the output was none. */
export interface FailedCall {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /** Told apart by `code`: `WASM_SERVE_GUEST_ERROR` if the guest said no, in its own words. */
  readonly error: Error
  /** Time of the call, waiting for its turn included; 0 if it was not made. */
  readonly ms: number
}

/** The properties of a route that decide which requests it answers. */
export interface RoutePlace {
  readonly url: string
  readonly host?: string | undefined
  readonly method?: string | readonly string[] | undefined
  readonly contract?: unknown
}

/**
 * The methods that each of some routes answers. HEAD comes with GET, unless another route has it; a Simplism plug-in
 * answers all.
 *
 * @param supported - The methods that the app supports.
 */
export function methodsOfAll(
  routes: readonly RoutePlace[],
  supported: readonly string[],
): (route: RoutePlace) => string[] {
  const headTaken = new Set(routes.filter((route) => askedFor(route).includes('HEAD')).map(servedAt))
  return (route) => {
    const methods = askedFor(route)
    if (methods.includes('*')) return [...supported]
    return methods.includes('GET') && !headTaken.has(servedAt(route)) ? [...methods, 'HEAD'] : methods
  }
}

function askedFor({ method, contract }: RoutePlace): string[] {
  return [method ?? (contract === 'simplism' ? '*' : 'POST')].flat()
}

/** Two routes that answer the same requests. */
interface RouteConflict {
  /** Index of the first of them. */
  readonly first: number
  readonly later: number
  /** One that both answer. */
  readonly method: string
}

/** Finds the routes that answer a method, URL and host that one before them answers too. */
export function routeConflicts(
  routes: readonly RoutePlace[],
  supported: readonly string[] = METHODS,
): RouteConflict[] {
  const taken = new Map<string, number>()
  const methodsOf = methodsOfAll(routes, supported)
  return routes.flatMap((route, later) => {
    const conflicts: RouteConflict[] = []
    for (const method of methodsOf(route)) {
      const place = `${method} ${servedAt(route)}`
      const first = taken.get(place)
      if (first === undefined) taken.set(place, later)
      else if (conflicts.length === 0) conflicts.push({ first, later, method })
    }
    return conflicts
  })
}

/** @throws {@link RouteConflictError} if two routes answer the same method, URL and host. */
export function refuseRouteConflicts(routes: readonly RoutePlace[], supported: readonly string[]): void {
  for (const { later, method } of routeConflicts(routes, supported))
    throw new RouteConflictError(method, routes[later]?.url ?? '')
}

function servedAt({ url, host = '' }: RoutePlace): string {
  return `${host.toLowerCase()} ${url}`
}

/** Makes Fastify match a host name whatever its case and port: as a text it would have to be the very `Host` header. */
export function constraintsOf(host: string | undefined): { host?: RegExp } {
  if (host === undefined) return {}
  return { host: new RegExp(`^${host.replaceAll(/[.[\]]/g, '\\$&')}(?::\\d*)?$`, 'i') }
}
