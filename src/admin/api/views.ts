import { idOf } from '../../deploy/book.ts'
import { type PluginChange, trafficOf } from '../../deploy/changes.ts'
import { AdminUnknownError } from '../../errors/errors.ts'
import type { ServedRoute } from '../../options/served-route.ts'
import { callableExports } from '../../plugin/callable.ts'
import type { Control } from './control.ts'

/** A route that is served. */
interface Found {
  readonly id: string
  /** Of its plug-in. */
  readonly name: string
  readonly served: ServedRoute
}

/** What is served, by the ids of the routes. */
export function routesOf({ changer }: Control): Found[] {
  const { wanted, routes } = changer.live
  return wanted.planned.flatMap(({ given, name }, index) => {
    const served = routes[index]
    return served ? [{ id: idOf(given), name, served }] : []
  })
}

/** @throws {@link AdminUnknownError} */
export function viewRoute(control: Control, id: string): object {
  const found = routesOf(control).find((route) => route.id === id)
  if (!found) throw new AdminUnknownError('route', id)
  return view(control, found)
}

export function viewRoutes(control: Control): object[] {
  return routesOf(control).map((found) => view(control, found))
}

function view({ book }: Control, { id, name, served }: Found): object {
  const { plugin: _file, engineReason: _reason, runtime: _runtime, split, ...route } = served
  const options = book.changes.routes.get(id)?.options
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
export function viewPlugin(control: Control, name: string): object {
  const plugin = control.book.changes.plugins.get(name)
  if (!plugin) throw new AdminUnknownError('plug-in', name)
  const routes = routesOf(control).filter((route) => route.name === name)
  const { planned } = control.changer.live.wanted
  const loaded = planned.find((route) => route.name === name)?.plugin
  return {
    name,
    added: plugin.added,
    versions: viewVersions(plugin, routes),
    routes: routes.map(({ id }) => id),
    exports: loaded ? callableExports(loaded) : [],
    imports: loaded?.imports.map(({ module, name }) => ({ module, name })) ?? [],
  }
}

export function viewPlugins(control: Control): object[] {
  return [...control.book.changes.plugins.keys()].map((name) => viewPlugin(control, name))
}

function viewVersions(plugin: PluginChange, routes: readonly Found[]): object[] {
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
