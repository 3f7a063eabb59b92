import { type CheckedRouteOptions, checkServerOptions, type RouteOptions } from '../../src/options/options.ts'

/** Options of a route after their check, with defaults. */
export function checkedRoute(options: Partial<RouteOptions>): CheckedRouteOptions {
  const [route] = checkServerOptions({ routes: [{ plugin: 'guest.wasm', ...options }] }).routes
  if (!route) throw new Error('no route')
  return route
}
