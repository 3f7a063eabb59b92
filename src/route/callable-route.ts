import type { FastifyRequest } from 'fastify'
import type { Log } from '../observe/log/guest-log.ts'
import { type Caller, observeCalls, outcomeOf } from '../observe/observe.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { ServedRoute } from '../options/served-route.ts'
import type { Plugin } from '../plugin/plugin.ts'
import type { OpenRoute } from './open-route.ts'
import type { OpenVersions, VersionedRoute } from './open-routes.ts'
import { hookedInput, notify, type RouteHooks } from './route.ts'
import type { RoutePool } from './route-pool.ts'
import { weightedChoice } from './weighted-choice.ts'

/** A route whose guests are called by something other than a request to its URL: bytes in, bytes out. */
export interface CallableRoute {
  readonly served: ServedRoute
  readonly options: ResolvedRoute
  readonly plugin: Plugin
  /** Path or URL of its plug-in; undefined if it was given as bytes. */
  readonly source: string | undefined
  /** The XTP schema that travels with its artifact. */
  readonly xtpSchema: string | undefined

  /**
   * Calls the guest like a request to the route: with its hooks, metrics, traces, and the split between versions.
   *
   * @param input - The engine takes ownership.
   * @param exportName - Default: the function of the route.
   * @throws errors of the engine and of the hooks.
   */
  call(input: Uint8Array, caller: RouteCaller, exportName?: string): Promise<Uint8Array>

  /**
   * Calls the guest for no client, such as to learn what it says about itself: without hooks, metrics and traces.
   *
   * @param log - Receives the log lines of the guest.
   * @throws errors of the engine.
   */
  ask(exportName: string, input: Uint8Array, log: Log): Promise<Uint8Array>
}

/** The request during which a guest is called, and what replaces parts of it. */
export interface RouteCaller {
  readonly request: FastifyRequest
  /** Receives the log lines of the guest. */
  readonly log: Log
  /** Whether the client has disconnected. Then the guest is ended if it runs in a thread or process. */
  readonly isGone: boolean
}

/**
 * @param hooks - The hooks around its calls, if there are any.
 * @param described - Default of `source`: the option `plugin`, if it is a text.
 */
export function callableRoute(
  { live, next }: OpenVersions,
  served: ServedRoute,
  pool: RoutePool,
  hooks: RouteHooks | undefined,
  { source, xtpSchema }: Pick<VersionedRoute, 'source' | 'xtpSchema'> = {},
): CallableRoute {
  const countsOf = (version: OpenRoute) => (next ? pool.countsOf(version) : undefined)
  const callLive = callVersion(live, countsOf(live))
  const callNext = next && callVersion(next.route, countsOf(next.route))
  const isNext = weightedChoice(next?.percent ?? 0)
  const run: CallVersion = (...call) => (callNext && isNext() ? callNext(...call) : callLive(...call))
  const { plugin } = live.options
  return {
    served,
    options: live.options,
    plugin: live.plugin,
    source: source ?? (typeof plugin === 'string' ? plugin : undefined),
    xtpSchema,
    call: hooks ? withHooks(run, hooks, served) : run,
    ask: async (exportName, input, log) => live.instances.call(exportName, input, { log }),
  }
}

type CallVersion = CallableRoute['call']

function callVersion(
  { exportName, instances, listeners }: OpenRoute,
  version: ReturnType<RoutePool['countsOf']> | undefined,
): CallVersion {
  const observe = observeCalls({ ...listeners, version })
  return async (input, caller, called = exportName) => {
    const observer = observe?.(caller.request)
    try {
      const output = await instances.call(called, input, new LeavingCaller(caller, observer))
      observer?.returned()
      observer?.settled('ok')
      return output
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : ''
      observer?.settled(outcomeOf(code), code)
      throw error
    }
  }
}

/** A caller whose client cancels a call by disconnecting. */
class LeavingCaller implements Caller {
  readonly isCancelledWhenGone = true
  readonly log: Log
  readonly host: FastifyRequest
  readonly observer: Caller['observer']
  readonly #caller: RouteCaller

  constructor(caller: RouteCaller, observer: Caller['observer']) {
    this.log = caller.log
    this.host = caller.request
    this.observer = observer
    this.#caller = caller
  }

  get isGone(): boolean {
    return this.#caller.isGone
  }
}

function withHooks(run: CallVersion, hooks: RouteHooks, route: ServedRoute): CallVersion {
  return async (bytes, caller, exportName) => {
    const { request } = caller
    let madeAt = Number.NaN
    const ms = () => (Number.isNaN(madeAt) ? 0 : performance.now() - madeAt)
    try {
      const input = await hookedInput({ route, request, input: bytes }, hooks.onCall)
      madeAt = performance.now()
      const output = await run(input, caller, exportName)
      notify(hooks.onResult, { route, request, output, ms: ms() }, 'onResult')
      return output
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      notify(hooks.onError, { route, request, error, ms: ms() }, 'onError')
      throw error
    }
  }
}
