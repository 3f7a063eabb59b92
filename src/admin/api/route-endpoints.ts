import type { Deployment, Deployments, MakeDesired } from '../../deploy/deployments.ts'
import { idOf, idOfOptions, withPlace } from '../../deploy/desired-state.ts'
import { type Edits, forbiddenOption, type PluginVersions, trafficOf, withRoute } from '../../deploy/edits.ts'
import {
  AdminConflictError,
  AdminForbiddenError,
  AdminRequestError,
  AdminUnknownError,
} from '../../errors/errors.ts'
import { callableExports } from '../../module/entry-points.ts'
import type { ServedRoute } from '../../options/served-route.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import { applyEdit, type Endpoint } from './endpoint.ts'
import { bodies, ref } from './schemas.ts'

type RouteBody = Readonly<Record<string, unknown>> & { readonly plugin: string }

export const routeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/routes',
    id: 'listRoutes',
    summary: 'All routes',
    answers: { 200: { description: 'All routes.', schema: { type: 'array', items: ref('Route') } } },
    run: (_request, deployments) => viewRoutes(deployments),
  },
  {
    method: 'GET',
    path: '/api/routes/{id}',
    id: 'showRoute',
    summary: 'One route',
    answers: { 200: { description: 'The route.', schema: ref('Route') } },
    run: ({ params: { id = '' } }, deployments) => viewRoute(deployments, id),
  },
  {
    method: 'POST',
    path: '/api/routes',
    id: 'addRoute',
    summary: 'Add a route',
    body: bodies.route,
    answers: { 201: { description: 'The route is live.', schema: ref('ChangedRoute') } },
    async run(request, deployments, reply) {
      const given = checkRouteBody(request.body as RouteBody)
      let id = ''
      const add: MakeDesired = (now) => {
        const options = withPlace(given, now.configuration)
        id = idOfOptions(options)
        if (routeIndex(deployments).byId.has(id))
          throw new AdminConflictError(
            `A route already exists at this method, host and URL, with the id ${id}`,
          )
        refuseUnknownFields(now.edits, options)
        return { ...now, edits: withRoute(now.edits, id, { options }) }
      }
      const change = await applyEdit(deployments, request, `add route ${String(given.url ?? '/')}`, add)
      reply.code(201)
      return { change, route: viewRoute(deployments, id) }
    },
  },
  {
    method: 'PUT',
    path: '/api/routes/{id}',
    id: 'putRoute',
    summary: 'Replace the options of a route',
    description:
      'Omitted options return to the defaults of the plug-in and the configuration. Method, host and URL cannot change: add another route instead.',
    body: bodies.route,
    answers: { 200: { description: 'The route is live.', schema: ref('ChangedRoute') } },
    async run(request, deployments) {
      const { id = '' } = request.params
      const given = checkRouteBody(request.body as RouteBody)
      const put: MakeDesired = (now) => {
        const options = withPlace({ ...routeAddress(deployments, id), ...given }, now.configuration)
        if (idOfOptions(options) !== id)
          throw new AdminRequestError('Method, host and URL of a route cannot change: add another route')
        refuseUnknownFields(now.edits, options)
        return { ...now, edits: withRoute(now.edits, id, { options }) }
      }
      const change = await applyEdit(deployments, request, `put route ${id}`, put)
      return { change, route: viewRoute(deployments, id) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/routes/{id}',
    id: 'deleteRoute',
    summary: 'Remove a route',
    description: 'Running calls complete.',
    answers: { 200: { description: 'The route was removed.', schema: ref('Changed') } },
    async run(request, deployments) {
      const { id = '' } = request.params
      const remove: MakeDesired = (now) => {
        const { byId } = routeIndex(deployments)
        if (!byId.has(id)) throw new AdminUnknownError('route', id)
        refuseLast(byId.size - 1)
        return { ...now, edits: withRoute(now.edits, id, { options: undefined }) }
      }
      return { change: await applyEdit(deployments, request, `delete route ${id}`, remove) }
    },
  },
]

/** @param left - Routes that would remain. @throws {@link AdminConflictError} if none would. */
export function refuseLast(left: number): void {
  if (left === 0)
    throw new AdminConflictError(
      'A server needs at least one route: add another before you remove the last one',
    )
}

/** Method, host and URL of a route from its options. @throws {@link AdminUnknownError} */
function routeAddress({ current }: Deployments, id: string): object {
  const found = current.routes.find(({ target }) => idOf(target.given) === id)
  if (!found) throw new AdminUnknownError('route', id)
  const { url, method, host, contract } = found.options
  return {
    url,
    ...(method !== undefined && { method }),
    ...(host !== undefined && { host }),
    ...(contract === 'simplism' && { contract }), // simplism serves all methods
  }
}

function refuseUnknownFields(edits: Edits, { plugin }: RouteBody): void {
  if (!edits.plugins.has(plugin)) throw new AdminUnknownError('plug-in', plugin)
}

/** The other options are validated together with those of all routes. */
function checkRouteBody(options: RouteBody): RouteBody {
  const forbidden = forbiddenOption(options)
  if (forbidden !== undefined) throw new AdminForbiddenError(`The option ${forbidden}`)
  return options
}

/** A served route. */
interface RouteInfo {
  readonly id: string
  /** The name of its plug-in. */
  readonly name: string
  readonly plugin: Plugin
  readonly served: ServedRoute
}

/** The served routes of a deployment. */
interface RouteIndex {
  readonly byId: ReadonlyMap<string, RouteInfo>
  /** By the name of the plug-in. */
  readonly byName: ReadonlyMap<string, readonly RouteInfo[]>
}

const indices = new WeakMap<Deployment, RouteIndex>()

/** Of the current deployment. */
export function routeIndex({ current }: Deployments): RouteIndex {
  const index = indices.get(current) ?? indexRoutes(current)
  indices.set(current, index)
  return index
}

function indexRoutes({ routes, served }: Deployment): RouteIndex {
  const byId = new Map<string, RouteInfo>()
  const byName = new Map<string, RouteInfo[]>()
  for (const [place, { target, plugin }] of routes.entries()) {
    const info = served[place]
    if (!info) continue
    const { given, name } = target
    const route = { id: idOf(given), name, plugin, served: info }
    byId.set(route.id, route)
    const others = byName.get(name)
    if (others) others.push(route)
    else byName.set(name, [route])
  }
  return { byId, byName }
}

/** @throws {@link AdminUnknownError} */
function viewRoute(deployments: Deployments, id: string): object {
  const found = routeIndex(deployments).byId.get(id)
  if (!found) throw new AdminUnknownError('route', id)
  return view(deployments, found)
}

function viewRoutes(deployments: Deployments): object[] {
  return [...routeIndex(deployments).byId.values()].map((found) => view(deployments, found))
}

function view({ current }: Deployments, { id, name, served }: RouteInfo): object {
  const { plugin: _file, engineReason: _reason, runtime: _runtime, split, ...route } = served
  const options = current.edits.routes.get(id)?.options
  return {
    id,
    ...route,
    plugin: name,
    trouble: served.trouble, // a getter, which is not in the spread
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
  const routes = routeIndex(deployments).byName.get(name) ?? []
  const loaded = routes[0]?.plugin
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
