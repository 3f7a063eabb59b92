import { METHODS } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { VersionCounts } from '../observe/observe.ts'

/** A route and the plug-in behind it; an `onRoute` hook gets it as the route's `config.wasmServe`. */
export interface ServedRoute {
  /** `*` alone: all methods that the app knows. */
  readonly methods: readonly string[]
  readonly url: string
  /** The only host that it answers to, if any. */
  readonly host: string | undefined
  /** `raw`, `http`, `simplism`, `websocket`, or the name of the user's own contract. */
  readonly contract: string
  readonly description: string | undefined
  /** Status of the answer when the guest reports an error. */
  readonly errorStatus: number
  readonly plugin: string
  /** SHA-256 of the plug-in's main module, in hex. */
  readonly digest: string
  readonly function: string
  readonly engine: string
  /** Threads that run its calls; 0: the event loop. */
  readonly workers: number
  /** Reason for its threads; undefined if it has none. */
  readonly engineReason: string | undefined
  /** The current problem as text; undefined if there is none. */
  readonly trouble: string | undefined
  readonly runtime: string
  /** Whether its guests stream: they read bodies and write answers piece by piece. Default: false. */
  readonly streams?: boolean | undefined
  /** The second version of the plug-in, if calls are split between two. */
  readonly split?: RouteSplit | undefined
  /** The route as a tool of the MCP endpoint, if it is one. */
  readonly tool?: ServedTool | undefined
}

/** A route as a tool. */
export interface ServedTool {
  /** undefined: the plug-in names its tools itself. (hyper-mcp) */
  readonly name: string | undefined
  /** Whether the route is not served at its URL. */
  readonly isOnly: boolean
}

/** How the calls of a route are split between two versions of its plug-in. */
export interface RouteSplit {
  /** SHA-256 of the second version's main module, in hex. */
  readonly digest: string
  /** The engine of the second version, which may differ from that of the first. */
  readonly engine: string
  /** Threads that run the calls of the second version; 0: the event loop. */
  readonly workers: number
  /** Percentage of the calls for the second version. */
  readonly percent: number
  /** Calls of the first and the second version since they were opened. */
  readonly counts: readonly [VersionCounts, VersionCounts]
}

/**
 * What does not change of a route that is served. A class, because V8 gives each object literal with a getter a hidden class of
 * its own: 1.5 KiB for each route.
 */
export class RouteFacts implements Omit<ServedRoute, 'trouble' | 'split'> {
  readonly methods: ServedRoute['methods']
  readonly url: string
  readonly host: string | undefined
  readonly contract: string
  readonly description: string | undefined
  readonly errorStatus: number
  readonly plugin: string
  readonly digest: string
  readonly function: string
  readonly engine: string
  readonly workers: number
  readonly engineReason: string | undefined
  readonly runtime: string
  readonly streams: boolean | undefined
  readonly tool: ServedTool | undefined

  constructor(route: Omit<ServedRoute, 'trouble' | 'split'>) {
    this.methods = route.methods
    this.url = route.url
    this.host = route.host
    this.contract = route.contract
    this.description = route.description
    this.errorStatus = route.errorStatus
    this.plugin = route.plugin
    this.digest = route.digest
    this.function = route.function
    this.engine = route.engine
    this.workers = route.workers
    this.engineReason = route.engineReason
    this.runtime = route.runtime
    this.streams = route.streams
    this.tool = route.tool
  }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Present on the routes of wasm-serve. */
    wasmServe?: ServedRoute
    /** Present on a route that serves many of them. */
    wasmServeTable?: { find(request: FastifyRequest): ServedRoute | undefined }
  }
}

/**
 * Functions of the user around the calls of guests: as options of the Fastify plugin or of {@link createServer} for all
 * routes, or as options of one route. Those for all routes run first.
 *
 * A request becomes a call once its body has been read: hooks do not see earlier refusals (404, 405, 413). Each call
 * ends with one call of `onResult` or `onError`, unless `onCall` never settles.
 */
export interface CallHooks {
  /**
   * Called before the guest. The request waits for its result.
   *
   * @returns bytes that replace the guest's input, or nothing; or a promise of either.
   * @throws anything, to refuse the call: the guest is not run, and the error is handled like any other. wasm-serve
   * answers a {@link CallRefusedError} with its message; other errors go to the error handler of the app, where Fastify
   * uses the error's `statusCode`.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a hook without a result may have the type void
  onCall?: ((call: GuestCall) => Uint8Array | void | Promise<Uint8Array | void>) | undefined

  /** Called when the answer begins to be sent. Errors that it throws are logged and have no other effect. */
  onResult?: ((result: GuestResult) => unknown) | undefined

  /**
   * Called when an error begins to be sent instead of an answer. Errors that it throws are logged and have no other
   * effect.
   */
  onError?: ((failure: FailedCall) => unknown) | undefined
}

/** Data of a call before the guest runs. */
export interface GuestCall {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /**
   * The input that the contract created from the request, or its replacement by an earlier hook. The engine owns it
   * after the hook: copy it to keep it.
   */
  readonly input: Uint8Array
}

/** Data of a completed call. */
export interface GuestResult {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /** The guest's output, before the contract converts it to an answer. It may still be in transit: do not change it. */
  readonly output: Uint8Array
  /** Duration of the call in ms, including the wait for an instance but not `onCall`. */
  readonly ms: number
}

/** Data of a failed call: a hook refused it, the guest or its engine failed, or the output was invalid. */
export interface FailedCall {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /** Distinguished by `code`: `WASM_SERVE_GUEST_ERROR` if the guest reported an error, with its own message. */
  readonly error: Error
  /** Duration of the call in ms, including the wait for an instance; 0 if the guest was not called. */
  readonly ms: number
}

/** The properties of a route that decide which requests it answers. */
export interface RouteIdentity {
  readonly url: string
  readonly host?: string | undefined
  readonly method?: string | readonly string[] | undefined
  readonly contract?: unknown
}

/**
 * The methods of each route. GET includes HEAD, unless another route has it or it is for handshakes.
 *
 * @param supported - The methods that the app supports.
 * @param isTaken - Whether a route of the app has the method, which is no conflict if the route does not name it.
 */
export function methodsOfAll(
  routes: readonly RouteIdentity[],
  supported: readonly string[],
  isTaken: (method: string, route: RouteIdentity) => boolean = () => false,
): (route: RouteIdentity) => readonly string[] {
  const headTaken = new Set(routes.filter((route) => requestedMethods(route).includes('HEAD')).map(servedAt))
  return (route) => {
    const methods = requestedMethods(route)
    if (methods.includes('*')) return supported.filter((method) => !isTaken(method, route))
    const isRead = methods.includes('GET') && route.contract !== 'websocket'
    const addsHead = isRead && !headTaken.has(servedAt(route)) && !isTaken('HEAD', route)
    return addsHead ? [...methods, 'HEAD'] : methods
  }
}

/** A route by its methods, host and URL, for messages. */
export function routeLabel(route: RouteIdentity): string {
  const { host = '', url } = route
  return `${requestedMethods(route).join(',')} ${host}${url}`
}

/** The method of a route that names none, by its contract. */
export function defaultMethod(contract: unknown): string {
  return (typeof contract === 'string' && METHODS_OF.get(contract)) || 'POST'
}

/** A Simplism plug-in answers all, and a handshake is a GET. */
const METHODS_OF: ReadonlyMap<string, string> = new Map([
  ['simplism', '*'],
  ['websocket', 'GET'],
])

/** The methods that a route names, or else that of its contract. */
export function requestedMethods({ method, contract }: RouteIdentity): readonly string[] {
  const requested = method ?? defaultMethod(contract)
  return typeof requested === 'string' ? [requested] : requested
}

/** Two routes that match the same requests. */
interface RouteConflict {
  /** Index of the first one. */
  readonly first: number
  readonly later: number
  /** A method that both answer. */
  readonly method: string
}

/** Finds routes whose method, URL and host an earlier route also has, apart from names of parameters. */
export function routeConflicts(
  routes: readonly RouteIdentity[],
  supported: readonly string[] = METHODS,
): RouteConflict[] {
  const methodsOf = methodsOfAll(routes, supported)
  /** Indices of routes, by place. */
  const places = new Map<string, number[]>()
  const conflicts: RouteConflict[] = []
  for (const [later, route] of routes.entries()) {
    const place = servedAt(route)
    const others = places.get(place)
    if (!others) {
      places.set(place, [later])
      continue
    }
    const methods = methodsOf(route)
    const methodOfBoth = (first: number) => {
      const its = methodsOf(routes[first] ?? route)
      return methods.find((method) => its.includes(method))
    }
    const first = others.find((other) => methodOfBoth(other) !== undefined)
    const method = first === undefined ? undefined : methodOfBoth(first)
    if (first !== undefined && method !== undefined) conflicts.push({ first, later, method })
    others.push(later)
  }
  return conflicts
}

/** Parameters match the same, whatever their names are. */
function servedAt({ url, host = '' }: RouteIdentity): string {
  const pattern = url.includes(':')
    ? url.replaceAll(PARAMETER, (found) => (found === '::' ? found : ':'))
    : url
  return `${host.toLowerCase().replace(/\.$/, '')} ${pattern}`
}

/** `::` is a colon. */
const PARAMETER = /::|:[A-Za-z_]\w*/g

/**
 * Makes Fastify ignore case, port and the dot at the end of a host name: a text would have to equal the `Host` header
 * exactly.
 */
export function constraintsOf(host: string | undefined): { host?: RegExp } {
  if (host === undefined) return {}
  const name = host
    .toLowerCase()
    .replace(/\.$/, '')
    .replaceAll(/[.[\]]/g, '\\$&')
  return { host: new RegExp(`^${name}\\.?(?::\\d*)?$`, 'i') }
}
