import type { Deployments } from '../../deploy/deployments.ts'
import { idOf } from '../../deploy/desired-state.ts'
import { type PluginVersions, trafficOf } from '../../deploy/edits.ts'
import { AdminUnknownError } from '../../errors/errors.ts'
import { callableExports } from '../../module/entry-points.ts'
import type { ServedRoute } from '../../options/served-route.ts'

/** A route that is served. */
interface RouteInfo {
  readonly id: string
  /** Of its plug-in. */
  readonly name: string
  readonly served: ServedRoute
}

/** What is served, by the ids of the routes. */
export function routesOf({ current: { routes, served } }: Deployments): RouteInfo[] {
  return routes.flatMap(({ target: { given, name } }, index) => {
    const info = served[index]
    return info ? [{ id: idOf(given), name, served: info }] : []
  })
}

/** @throws {@link AdminUnknownError} */
export function viewRoute(deployments: Deployments, id: string): object {
  const found = routesOf(deployments).find((route) => route.id === id)
  if (!found) throw new AdminUnknownError('route', id)
  return view(deployments, found)
}

export function viewRoutes(deployments: Deployments): object[] {
  return routesOf(deployments).map((found) => view(deployments, found))
}

function view({ current }: Deployments, { id, name, served }: RouteInfo): object {
  const { plugin: _file, engineReason: _reason, runtime: _runtime, split, ...route } = served
  const options = current.edits.routes.get(id)?.options
  return {
    id,
    ...route,
    plugin: name,
    trouble: served.trouble, // a getter, which spreading would call once too
    split: split && {
      digest: split.digest,
      percent: split.percent,
      engine: split.engine,
      workers: split.workers,
    },
    from: options ? 'api' : 'configuration',
    options,
  }
}

/** @throws {@link AdminUnknownError} */
export function viewPlugin(deployments: Deployments, name: string): object {
  const plugin = deployments.current.edits.plugins.get(name)
  if (!plugin) throw new AdminUnknownError('plug-in', name)
  const routes = routesOf(deployments).filter((route) => route.name === name)
  const loaded = deployments.current.routes.find(({ target }) => target.name === name)?.plugin
  return {
    name,
    added: plugin.added,
    versions: viewVersions(plugin, routes),
    routes: routes.map(({ id }) => id),
    exports: loaded ? callableExports(loaded) : [],
    imports: loaded?.imports.map(({ module, name }) => ({ module, name })) ?? [],
  }
}

export function viewPlugins(deployments: Deployments): object[] {
  return [...deployments.current.edits.plugins.keys()].map((name) => viewPlugin(deployments, name))
}

function viewVersions(plugin: PluginVersions, routes: readonly RouteInfo[]): object[] {
  const traffic = trafficOf(plugin)
  return plugin.versions.map(({ digest, from, addedAt, modules }) => {
    const module = modules.find(({ name }) => name === 'main')?.digest ?? digest
    const counts = routes.flatMap(({ served }) => {
      if (!served.split) return []
      const [first, second] = served.split.counts
      if (served.split.digest === module) return [second]
      return served.digest === module ? [first] : []
    })
    return {
      digest,
      module,
      from,
      addedAt,
      bytes: modules.reduce((sum, { bytes }) => sum + bytes, 0),
      configured: plugin.over === digest,
      percent: percentOf(digest, traffic),
      calls: counts.reduce((sum, { calls }) => sum + calls, 0),
      failures: counts.reduce((sum, { failures }) => sum + failures, 0),
    }
  })
}

function percentOf(digest: string, [live, second]: ReturnType<typeof trafficOf>): number {
  if (second?.digest === digest) return second.percent
  return live?.digest === digest ? 100 - (second?.percent ?? 0) : 0
}
