import { RouteNotFoundError } from '../errors/errors.ts'
import { restoreError } from '../errors/failure.ts'
import { withLocation } from '../options/check-config.ts'
import type { ConfigMap } from '../options/config-node.ts'
import { optionsByError } from '../options/facts.ts'
import { type RouteIdentity, routeLabel } from '../options/served-route.ts'

/** A route with the origins of its options, if it is from a configuration. */
export interface PlacedRoute extends RouteIdentity {
  readonly origins?: ConfigMap | undefined
}

/** Adds the route to a failure to open it, and the line of the config file that asks for what failed. Once. */
export function blameRoute(error: unknown, route: PlacedRoute): unknown {
  if (!(error instanceof Error && 'code' in error) || blamed.has(error)) return error
  const option = ROUTE_OPTIONS.get(String(error.code))
  if (option === undefined) return error
  const { cause = error } = error
  const label = NAMING.has(String(error.code)) ? '' : `Route ${routeLabel(route)}: `
  const named = restoreError(String(error.code), label + error.message, cause) ?? error
  const result = route.origins ? withLocation(named, route.origins, option, 'plugin') : named
  if (result instanceof Error) blamed.add(result)
  return result
}

/** Failures whose messages name the route. */
const NAMING: ReadonlySet<string> = new Set(['WASM_SERVE_ROUTE_INVALID', 'WASM_SERVE_SMOKE_FAILED'])

const blamed = new WeakSet<Error>()

/** Failures that are not of a route have no option. */
const ROUTE_OPTIONS = optionsByError('route')

/**
 * The failure of a request whose URL no route has.
 *
 * @param advice - What else to look at.
 */
export function routeNotFound(method: string, url: string, advice = ''): Error {
  const [path = ''] = url.split('?', 1)
  const hint =
    path.length > 1 && path.endsWith('/')
      ? ': with the / at its end it is another URL than without'
      : /[A-Z]/.test(path.replaceAll(/%[\da-f]{2}/gi, ''))
        ? ': URLs are case-sensitive'
        : advice
  return new RouteNotFoundError(method, url, hint)
}
