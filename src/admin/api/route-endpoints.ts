import { type Edit, idOfOptions, withPlace } from '../../deploy/book.ts'
import { type Changes, withRoute } from '../../deploy/changes.ts'
import { forbiddenOption } from '../../deploy/editable-options.ts'
import {
  AdminConflictError,
  AdminForbiddenError,
  AdminRequestError,
  AdminUnknownError,
} from '../../errors/errors.ts'
import type { Endpoint } from './endpoint.ts'
import { bodies, ref } from './schemas.ts'
import { routesOf, viewRoute, viewRoutes } from './views.ts'

type RouteBody = Readonly<Record<string, unknown>> & { readonly plugin: string }

/** What a route's id comes from. */
const PLACE = ['url', 'method', 'host'] as const

export const routeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/routes',
    id: 'listRoutes',
    summary: 'All routes',
    answers: { 200: { description: 'All.', schema: { type: 'array', items: ref('Route') } } },
    run: (_request, control) => viewRoutes(control),
  },
  {
    method: 'GET',
    path: '/api/routes/{id}',
    id: 'showRoute',
    summary: 'One route',
    answers: { 200: { description: 'It.', schema: ref('Route') } },
    run: ({ params: { id = '' } }, control) => viewRoute(control, id),
  },
  {
    method: 'POST',
    path: '/api/routes',
    id: 'addRoute',
    summary: 'Add a route',
    body: bodies.route,
    answers: { 201: { description: 'It is live.', schema: ref('ChangedRoute') } },
    async run({ body, expectRevision, signal }, control, reply) {
      const given = checkOptions(body as RouteBody)
      let id = ''
      const edit: Edit = (changes, merged) => {
        expectRevision()
        const options = withPlace(given, merged)
        id = idOfOptions(options)
        if (routesOf(control).some((route) => route.id === id))
          throw new AdminConflictError(`There is a route at this place: it has the id ${id}`)
        refuseUnknown(changes, options)
        return withRoute(changes, id, { options })
      }
      const change = await control.change(`add route ${String(given.url ?? '/')}`, edit, undefined, signal)
      reply.code(201)
      return { change, route: viewRoute(control, id) }
    },
  },
  {
    method: 'PUT',
    path: '/api/routes/{id}',
    id: 'putRoute',
    summary: 'Give a route other options',
    description:
      'What is left out goes back to what the plug-in and the configuration’s defaults say. Where it answers stays: add another route for another place.',
    body: bodies.route,
    answers: { 200: { description: 'It is live.', schema: ref('ChangedRoute') } },
    async run({ params: { id = '' }, body, expectRevision, signal }, control) {
      const given = checkOptions(body as RouteBody)
      const edit: Edit = (changes, merged) => {
        expectRevision()
        const found = routesOf(control).find((route) => route.id === id)
        const place = placeOf(control.changer.live.wanted.options.routes, control, id)
        if (!found || !place) throw new AdminUnknownError('route', id)
        const options = withPlace({ ...place, ...given }, merged)
        if (idOfOptions(options) !== id)
          throw new AdminRequestError('Method, host and URL of a route stay as they are: add another route')
        refuseUnknown(changes, options)
        return withRoute(changes, id, { options })
      }
      const change = await control.change(`put route ${id}`, edit, undefined, signal)
      return { change, route: viewRoute(control, id) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/routes/{id}',
    id: 'deleteRoute',
    summary: 'Remove a route',
    description: 'Its calls that run come to their end.',
    answers: { 200: { description: 'It is gone.', schema: ref('Changed') } },
    async run({ params: { id = '' }, expectRevision, signal }, control) {
      const edit = (changes: Changes): Changes => {
        expectRevision()
        if (!routesOf(control).some((route) => route.id === id)) throw new AdminUnknownError('route', id)
        refuseLast(routesOf(control).length - 1)
        return withRoute(changes, id, { options: undefined })
      }
      return { change: await control.change(`delete route ${id}`, edit, undefined, signal) }
    },
  },
]

/** @param left - Routes that there would be. @throws {@link AdminConflictError} if there would be none. */
export function refuseLast(left: number): void {
  if (left === 0)
    throw new AdminConflictError('A server has one route at least: add another before the last one goes')
}

/** Where a route answers, as its options say it. */
function placeOf(
  routes: readonly object[],
  control: Parameters<typeof routesOf>[0],
  id: string,
): Record<string, unknown> | undefined {
  const index = routesOf(control).findIndex((route) => route.id === id)
  const options = routes[index] as Readonly<Record<string, unknown>> | undefined
  if (!options) return undefined
  const keys = options.contract === 'simplism' ? [...PLACE, 'contract'] : PLACE // it answers all methods
  return Object.fromEntries(keys.flatMap((key) => (options[key] === undefined ? [] : [[key, options[key]]])))
}

function refuseUnknown(changes: Changes, { plugin }: RouteBody): void {
  if (!changes.plugins.has(plugin)) throw new AdminUnknownError('plug-in', plugin)
}

/** The rest is checked with the options of all routes. */
function checkOptions(options: RouteBody): RouteBody {
  const forbidden = forbiddenOption(options)
  if (forbidden !== undefined) throw new AdminForbiddenError(`The option ${forbidden}`)
  return options
}
