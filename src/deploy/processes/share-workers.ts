import { availableParallelism } from 'node:os'
import type { VersionedRoute } from '../../route/open-routes.ts'

/**
 * Divides the threads and processes of each route among the serving processes, rounded up: all of them together have
 * what the option `workers` asks for, and less than one for each serving process more.
 *
 * @param count - The number of serving processes.
 */
export function shareWorkers(count: number): (route: VersionedRoute) => VersionedRoute {
  const shares = new WeakMap<VersionedRoute, VersionedRoute>()
  return (route) => {
    const { workers } = route
    if (workers === undefined || workers === 0) return route
    const all = workers === 'auto' ? availableParallelism() : workers
    const share = shares.get(route) ?? { ...route, workers: Math.ceil(all / count) }
    shares.set(route, share)
    return share
  }
}
