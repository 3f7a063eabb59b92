import { METHODS } from 'node:http'
import { RouteConflictError } from '../errors/errors.ts'

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
  const headTaken = new Set(routes.filter((route) => askedFor(route).includes('HEAD')).map(placeOf))
  return (route) => {
    const methods = askedFor(route)
    if (methods.includes('*')) return [...supported]
    return methods.includes('GET') && !headTaken.has(placeOf(route)) ? [...methods, 'HEAD'] : methods
  }
}

function askedFor({ method, contract }: RoutePlace): string[] {
  return [method ?? (contract === 'simplism' ? '*' : 'POST')].flat()
}

/** Two routes that answer the same requests. */
export interface RouteConflict {
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
      const place = `${method} ${placeOf(route)}`
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

function placeOf({ url, host = '' }: RoutePlace): string {
  return `${host.toLowerCase()} ${url}`
}

/** Makes Fastify match a host name whatever its case and port: as a text it would have to be the very `Host` header. */
export function constraintsOf(host: string | undefined): { host?: RegExp } {
  if (host === undefined) return {}
  return { host: new RegExp(`^${host.replaceAll(/[.[\]]/g, '\\$&')}(?::\\d*)?$`, 'i') }
}
