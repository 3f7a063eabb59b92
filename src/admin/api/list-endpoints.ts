import type { Deployment } from '../../deploy/deployments.ts'
import { EventLoopYielder } from '../../platform/event-loop.ts'
import type { AdminContext } from '../feature.ts'
import type { Endpoint } from './endpoint.ts'
import { LIST_HEADERS, type ListItem, listQuery, sendPage } from './list.ts'
import {
  metersOf,
  type RouteInfo,
  type ShownDeployment,
  showDeployment,
  viewPlugin,
  viewRoute,
} from './route-endpoints.ts'
import { ref } from './schemas.ts'

/** The items of both lists for one deployment. */
interface Lists {
  readonly routes: readonly RouteItem[]
  readonly plugins: readonly ListItem[]
}

interface RouteItem extends ListItem {
  readonly info: RouteInfo
}

/** The lists of all routes and of all plug-ins. */
export function listEndpoints({ served }: AdminContext): Endpoint[] {
  const hide = (text: string): string => served.secrets?.hideInJson(text) ?? text
  const all = new WeakMap<Deployment, Promise<Lists>>()
  const listsOf = (shown: ShownDeployment): Promise<Lists> => {
    const lists = all.get(shown.current) ?? listItems(shown, (text) => JSON.parse(hide(JSON.stringify(text))))
    all.set(shown.current, lists)
    return lists
  }
  const json = (view: object) => hide(JSON.stringify(view))
  return [
    {
      method: 'GET',
      path: '/api/routes',
      id: 'listRoutes',
      summary: 'The routes, page by page',
      query: {
        plugin: { type: 'string', description: 'Only the routes of the plug-in with this name.' },
        ...listQuery('url', 'host, URL, function, or plug-in’s name or file name'),
      },
      answers: {
        200: {
          description: 'A page of routes.',
          headers: LIST_HEADERS,
          schema: { type: 'array', items: ref('Route') },
        },
      },
      async run({ query }, deployments, reply) {
        const shown = await showDeployment(deployments)
        const { routes } = await listsOf(shown)
        const { plugin } = query
        const asked = plugin === undefined ? routes : routes.filter(({ info }) => info.name === plugin)
        return sendPage(asked, query, reply, ({ info }) => json(viewRoute(shown, info)))
      },
    },
    {
      method: 'GET',
      path: '/api/plugins',
      id: 'listPlugins',
      summary: 'The plug-ins with their versions, page by page',
      query: listQuery('name', 'name, file name, or route’s host or URL'),
      answers: {
        200: {
          description: 'A page of plug-ins.',
          headers: LIST_HEADERS,
          schema: { type: 'array', items: ref('Plugin') },
        },
      },
      async run({ query }, deployments, reply) {
        const shown = await showDeployment(deployments)
        const { plugins } = await listsOf(shown)
        return sendPage(plugins, query, reply, ({ id }) => json(viewPlugin(shown, id)))
      },
    },
  ]
}

/** @param hide - Masks secrets: a search must not tell what an answer hides. */
async function listItems(shown: ShownDeployment, hide: (text: string) => string): Promise<Lists> {
  const { byId, byName } = shown.routes
  const pace = new EventLoopYielder()
  const items = new Map<RouteInfo, RouteItem>()
  for (const info of byId.values()) {
    const { id, name, plugin, served } = info
    const { host = '', url } = served
    const text = hide([host + url, served.function, name, plugin.file].join('\n')).toLowerCase()
    items.set(info, { id, title: hide(host + url), text, meters: metersOf(served, shown.meters), info })
    await pace.step()
  }
  const plugins: ListItem[] = []
  for (const [name, { versions }] of shown.current.edits.plugins) {
    const routes = (byName.get(name) ?? []).flatMap((info) => items.get(info) ?? [])
    const titles = routes.map(({ title }) => title)
    const meters = routes.flatMap((route) => route.meters)
    const files = versions.map((version) => version.name)
    const text = hide([name, ...files, ...titles].join('\n')).toLowerCase()
    plugins.push({ id: name, title: hide(name), text, meters })
    await pace.step()
  }
  return { routes: [...items.values()], plugins }
}
