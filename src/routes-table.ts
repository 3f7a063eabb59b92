import type { CheckedRouteOptions } from './config/options.ts'
import { RouteConflictError } from './errors.ts'

/**
 * The methods that a route answers. HEAD comes with GET, unless another route has it; a Simplism plug-in answers all.
 *
 * @param routes - All routes, this one among them.
 * @param supported - What the app knows.
 */
export function methodsOf(
  route: CheckedRouteOptions,
  routes: readonly CheckedRouteOptions[],
  supported: readonly string[],
): string[] {
  const methods = askedFor(route)
  if (methods.includes('*')) return [...supported]
  const isHeadTaken = routes.some(
    (other) => placeOf(other) === placeOf(route) && askedFor(other).includes('HEAD'),
  )
  return methods.includes('GET') && !isHeadTaken ? [...methods, 'HEAD'] : methods
}

function askedFor({ method, contract }: CheckedRouteOptions): string[] {
  return [method ?? (contract === 'simplism' ? '*' : 'POST')].flat()
}

/** @throws {@link RouteConflictError} if two routes answer the same method, URL and host. */
export function refuseConflicts(routes: readonly CheckedRouteOptions[], supported: readonly string[]): void {
  const taken = new Set<string>()
  for (const route of routes) {
    for (const method of methodsOf(route, routes, supported)) {
      const place = `${method} ${placeOf(route)}`
      if (taken.has(place)) throw new RouteConflictError(method, route.url)
      taken.add(place)
    }
  }
}

function placeOf({ url, host = '' }: CheckedRouteOptions): string {
  return `${host.toLowerCase()} ${url}`
}

/** Makes Fastify match a host name whatever its case and port: as a text it would have to be the very `Host` header. */
export function constraintsOf(host: string | undefined): { host?: RegExp } {
  if (host === undefined) return {}
  return { host: new RegExp(`^${host.replaceAll(/[.[\]]/g, '\\$&')}(?::\\d*)?$`, 'i') }
}
