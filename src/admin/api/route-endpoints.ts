import type { Deployment, Deployments, MakeDesired } from '../../deploy/deployments.ts'
import { idOf, idOfOptions, withAddress } from '../../deploy/desired-state.ts'
import {
  type Edits,
  forbiddenOption,
  mainModuleOf,
  type PluginVersions,
  pluginOf,
  trafficOf,
  withRoute,
} from '../../deploy/edits.ts'
import {
  AdminConflictError,
  AdminForbiddenError,
  AdminRequestError,
  AdminUnknownError,
} from '../../errors/errors.ts'
import { callableExports } from '../../module/entry-points.ts'
import { type CallTotals, type Meters, meterLabels, type RouteMeter } from '../../observe/metrics.ts'
import { defaultMethod, type ServedRoute } from '../../options/served-route.ts'
import { EventLoopYielder } from '../../platform/event-loop.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import { applyEdit, type Endpoint } from './endpoint.ts'
import { bodies, ref } from './schemas.ts'

type RouteBody = Readonly<Record<string, unknown>> & { readonly plugin: string }

export const routeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/routes/{id}',
    id: 'showRoute',
    summary: 'One route',
    answers: { 200: { description: 'The route.', schema: ref('Route') } },
    run: async ({ params: { id = '' } }, deployments) => viewRouteById(await showDeployment(deployments), id),
  },
  {
    method: 'POST',
    path: '/api/routes',
    id: 'addRoute',
    summary: 'Add a route',
    body: bodies.route,
    answers: { 201: { description: 'The route is live.', schema: ref('ChangedRoute') } },
    async run(request, deployments, reply) {
      const sent = checkRouteBody(request.body as RouteBody)
      let id = ''
      const add: MakeDesired = async (now) => {
        const options = withAddress(sent, now.configuration)
        id = idOfOptions(options)
        const { byId } = (await showDeployment(deployments)).routes
        if (byId.has(id))
          throw new AdminConflictError(
            `A route already exists at this method, host and URL, with the id ${id}`,
          )
        refuseUnknownFields(now.edits, options)
        return { ...now, edits: withRoute(now.edits, id, { options }) }
      }
      const change = await applyEdit(deployments, request, `add route ${String(sent.url ?? '/')}`, add)
      reply.code(201)
      return { change, route: viewRouteById(await showDeployment(deployments), id) }
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
      const sent = checkRouteBody(request.body as RouteBody)
      const put: MakeDesired = (now) => {
        const options = withAddress({ ...routeAddress(deployments, id), ...sent }, now.configuration)
        if (idOfOptions(options) !== id)
          throw new AdminRequestError('Method, host and URL of a route cannot change: add another route')
        refuseUnknownFields(now.edits, options)
        return { ...now, edits: withRoute(now.edits, id, { options }) }
      }
      const change = await applyEdit(deployments, request, `put route ${id}`, put)
      return { change, route: viewRouteById(await showDeployment(deployments), id) }
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
      const remove: MakeDesired = async (now) => {
        const { byId } = (await showDeployment(deployments)).routes
        if (!byId.has(id)) throw new AdminUnknownError('route', id, ': GET /api/routes lists them')
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
  const found = current.routes.find(({ target }) => idOf(target.configured) === id)
  if (!found) throw new AdminUnknownError('route', id, ': GET /api/routes lists them')
  const { url, method, host, contract } = found.options
  return {
    url,
    ...(method !== undefined && { method }),
    ...(host !== undefined && { host }),
    ...(typeof contract === 'string' && defaultMethod(contract) !== 'POST' && { contract }), // it decides the method
  }
}

function refuseUnknownFields(edits: Edits, { plugin }: RouteBody): void {
  pluginOf(edits, plugin)
}

/** The other options are validated together with those of all routes. */
function checkRouteBody(options: RouteBody): RouteBody {
  const forbidden = forbiddenOption(options)
  if (forbidden !== undefined) throw new AdminForbiddenError(`The option ${forbidden}`)
  return options
}

/** A served route. */
export interface RouteInfo {
  readonly id: string
  /** The name of its plug-in. */
  readonly name: string
  readonly plugin: Plugin
  readonly served: ServedRoute
}

/** The served routes of a deployment. */
interface RouteIndex {
  readonly byId: ReadonlyMap<string, RouteInfo>
  /** Routes by the name of their plug-in. */
  readonly byName: ReadonlyMap<string, readonly RouteInfo[]>
}

/** The deployment that an answer shows. Another one may go live while the answer is made. */
export interface ShownDeployment extends Pick<Deployments, 'current' | 'meters'> {
  readonly routes: RouteIndex
}

const indexed = new WeakMap<Deployment, Promise<ShownDeployment>>()

/** The current deployment. The index of its routes is made once. */
export function showDeployment({ current, meters }: Deployments): Promise<ShownDeployment> {
  const known = indexed.get(current) ?? indexRoutes(current).then((routes) => ({ current, meters, routes }))
  indexed.set(current, known)
  return known
}

async function indexRoutes({ routes, served }: Deployment): Promise<RouteIndex> {
  const pace = new EventLoopYielder()
  const byId = new Map<string, RouteInfo>()
  const byName = new Map<string, RouteInfo[]>()
  for (const [place, { target, plugin }] of routes.entries()) {
    const info = served[place]
    if (!info) continue
    const { configured, name } = target
    const route = { id: idOf(configured), name, plugin, served: info }
    byId.set(route.id, route)
    const others = byName.get(name)
    if (others) others.push(route)
    else byName.set(name, [route])
    await pace.step()
  }
  return { byId, byName }
}

/** @throws {@link AdminUnknownError} */
function viewRouteById(shown: ShownDeployment, id: string): object {
  const found = shown.routes.byId.get(id)
  if (!found) throw new AdminUnknownError('route', id, ': GET /api/routes lists them')
  return viewRoute(shown, found)
}

/** A route as JSON. */
export function viewRoute({ current, meters }: ShownDeployment, { id, served }: RouteInfo): object {
  const { engineReason: _reason, runtime: _runtime, split, ...route } = served
  const options = current.edits.routes.get(id)?.options
  return {
    id,
    ...route,
    trouble: served.trouble, // a getter, which is not in the spread
    split: split && {
      digest: split.digest,
      percent: split.percent,
      engine: split.engine,
      workers: split.workers,
    },
    ...totalsOf(metersOf(served, meters)),
    from: options ? 'api' : 'configuration',
    options,
  }
}

/** The meters of the versions of a route. */
export function metersOf(
  { host = '', url, plugin, digest, split }: ServedRoute,
  meters: Meters | undefined,
): RouteMeter[] {
  const digests = split ? [digest, split.digest] : [digest]
  return digests.flatMap((each) => meters?.find(meterLabels(host + url, plugin, each)) ?? [])
}

/** The counters of several meters together. */
export function totalsOf(meters: readonly RouteMeter[]): CallTotals {
  const sum = { calls: 0, failures: 0, guestMs: 0 }
  for (const { totals } of meters) {
    sum.calls += totals.calls
    sum.failures += totals.failures
    sum.guestMs += totals.guestMs
  }
  return { ...sum, guestMs: Math.round(sum.guestMs * 1_000) / 1_000 }
}

/** @throws {@link AdminUnknownError} */
export function viewPlugin(shown: ShownDeployment, name: string): object {
  const plugin = pluginOf(shown.current.edits, name)
  const routes = shown.routes.byName.get(name) ?? []
  const loaded = routes[0]?.plugin
  return {
    name,
    added: plugin.added,
    versions: viewVersions(plugin, routes),
    routes: routes.map(({ id }) => id),
    urls: routes.map(({ served: { host = '', url } }) => host + url),
    exports: loaded ? callableExports(loaded) : [],
    imports: loaded?.imports.map(({ module, name }) => ({ module, name })) ?? [],
    ...totalsOf(routes.flatMap(({ served }) => metersOf(served, shown.meters))),
  }
}

function viewVersions(plugin: PluginVersions, routes: readonly RouteInfo[]): object[] {
  const [live, second] = trafficOf(plugin)
  const rest = 100 - (second?.percent ?? 0)
  return plugin.versions.map((version) => {
    const { digest, from, addedAt, modules } = version
    const main = mainModuleOf(version)
    const module = main?.digest ?? digest
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
      origin: main?.place,
      signer: main?.signer,
      attestations: main?.attestations,
      configured: plugin.over === digest,
      percent: digest === second?.digest ? second.percent : digest === live?.digest ? rest : 0,
      calls: counts.reduce((sum, { calls }) => sum + calls, 0),
      failures: counts.reduce((sum, { failures }) => sum + failures, 0),
    }
  })
}
