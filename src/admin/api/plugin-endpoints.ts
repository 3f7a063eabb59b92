import { toVersion } from '../../deploy/book.ts'
import {
  type Changes,
  pluginOf,
  type Share,
  trafficOf,
  versionOf,
  withoutPlugin,
  withoutVersion,
  withPlugin,
  withRoute,
  withVersion,
} from '../../deploy/changes.ts'
import { AdminConflictError, AdminForbiddenError, AdminRequestError } from '../../errors/errors.ts'
import { readSource, type Source } from '../../plugin/source/source.ts'
import { isUrl } from '../../plugin/source/url.ts'
import type { Control } from './control.ts'
import type { ApiRequest, Endpoint } from './endpoint.ts'
import { refuseLast } from './route-endpoints.ts'
import { bodies, ref } from './schemas.ts'
import { routesOf, viewPlugin, viewPlugins } from './views.ts'

/** Of plug-ins that are added: it goes into URLs, logs and metrics. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** Of 64 KiB: more than these no module can address. */
const MOST_PAGES = 65_536

const changed = {
  200: { description: 'It is live.', schema: ref('ChangedPlugin') },
} as const

export const pluginEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/plugins',
    id: 'listPlugins',
    summary: 'All plug-ins, with their versions',
    answers: { 200: { description: 'All.', schema: { type: 'array', items: ref('Plugin') } } },
    run: (_request, control) => viewPlugins(control),
  },
  {
    method: 'GET',
    path: '/api/plugins/{name}',
    id: 'showPlugin',
    summary: 'One plug-in',
    answers: { 200: { description: 'It.', schema: ref('Plugin') } },
    run: ({ params: { name = '' } }, control) => viewPlugin(control, name),
  },
  {
    method: 'PUT',
    path: '/api/plugins/{name}',
    id: 'putPlugin',
    summary: 'Add a plug-in, or a version of one',
    description:
      'The body is a module, or names the URL of a module or manifest. All routes of the plug-in get it, when it was tried; with `live=false` no call gets it yet.',
    query: { live: { type: 'string', enum: ['true', 'false'], default: 'true' } },
    body: bodies.source,
    takesBytes: true,
    answers: { ...changed, 201: { description: 'It was added.', schema: ref('ChangedPlugin') } },
    async run(request, control, reply) {
      const { params, query, expectRevision, signal } = request
      const { name = '' } = params
      const isNew = !control.book.changes.plugins.has(name)
      if (isNew && !NAME.test(name))
        throw new AdminRequestError(
          'A plug-in’s name has 64 letters, digits, dots, dashes and underscores at most, and begins with a letter or digit',
        )
      const { source, from } = await readBody(request, control)
      // No route may try it now, and the version is kept: how much memory it may have is up to the routes that come.
      const unfit = await control.compile({ ...source, name }, { memoryMax: MOST_PAGES }, signal).then(
        () => undefined,
        (error: unknown) => error,
      )
      const made = toVersion(
        { ...source, name: control.book.changes.plugins.get(name)?.versions[0]?.name ?? name },
        from,
      )
      const edit = (changes: Changes): Changes => {
        expectRevision()
        if (unfit) throw unfit // here, where it is logged and counted
        const before = changes.plugins.get(name)
        const plugin = withVersion(before ?? { added: true, versions: [], traffic: [] }, made.version)
        const traffic = query.live === 'false' && before ? before.traffic : toShares(made.version.digest)
        return withPlugin(changes, name, { ...plugin, traffic })
      }
      const change = await control.change(`put plug-in ${name}`, edit, made.modules, signal)
      if (isNew) reply.code(201)
      return { change, plugin: viewPlugin(control, name) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/plugins/{name}',
    id: 'deletePlugin',
    summary: 'Remove a plug-in',
    description:
      'One that has routes is removed with `routes=true` only, and they with it. Calls that run come to their end.',
    query: { routes: { type: 'string', enum: ['true', 'false'], default: 'false' } },
    answers: { 200: { description: 'It is gone.', schema: ref('Changed') } },
    async run({ params: { name = '' }, query, expectRevision, signal }, control) {
      const edit = (changes: Changes): Changes => {
        expectRevision()
        const { added } = pluginOf(changes, name)
        const routes = routesOf(control).filter((route) => route.name === name)
        if (routes.length > 0 && query.routes !== 'true')
          throw new AdminConflictError(
            `The plug-in has routes (${routes.map(({ served }) => served.url).join(', ')}): remove them, or ask with routes=true`,
          )
        refuseLast(routesOf(control).length - routes.length)
        const without = routes.reduce((all, { id }) => withRoute(all, id, { options: undefined }), changes)
        return added ? withoutPlugin(without, name) : without
      }
      return { change: await control.change(`delete plug-in ${name}`, edit, undefined, signal) }
    },
  },
  {
    method: 'PUT',
    path: '/api/plugins/{name}/traffic',
    id: 'splitTraffic',
    summary: 'Decide which versions get the calls',
    description:
      'One version with 100 percent, or two whose percents make 100: of any 100 calls of a route, exactly so many go to the second.',
    body: bodies.traffic,
    answers: changed,
    async run({ params: { name = '' }, body, expectRevision, signal }, control) {
      const traffic = body as readonly Share[]
      if (traffic.reduce((sum, { percent }) => sum + percent, 0) !== 100)
        throw new AdminRequestError('The percents have to make 100')
      const edit = (changes: Changes): Changes => {
        expectRevision()
        const plugin = pluginOf(changes, name)
        for (const { digest } of traffic) versionOf(plugin, digest)
        if (traffic[0]?.digest === traffic[1]?.digest)
          throw new AdminRequestError('The versions have to differ')
        return withPlugin(changes, name, { ...plugin, traffic })
      }
      const change = await control.change(`split plug-in ${name}`, edit, undefined, signal)
      return { change, plugin: viewPlugin(control, name) }
    },
  },
  {
    method: 'POST',
    path: '/api/plugins/{name}/rollback',
    id: 'rollBack',
    summary: 'Go back to an earlier version',
    description: 'To the one that is named, else to the one that was added before the live one.',
    body: bodies.rollback,
    answers: changed,
    async run({ params: { name = '' }, body, expectRevision, signal }, control) {
      const { digest } = (body ?? {}) as { readonly digest?: string }
      const edit = (changes: Changes): Changes => {
        expectRevision()
        const plugin = pluginOf(changes, name)
        const live = plugin.versions.findIndex((version) => version.digest === trafficOf(plugin)[0]?.digest)
        const to = digest === undefined ? plugin.versions[live + 1] : versionOf(plugin, digest)
        if (!to) throw new AdminConflictError('There is no earlier version')
        return withPlugin(changes, name, { ...plugin, traffic: toShares(to.digest) })
      }
      const change = await control.change(`roll back plug-in ${name}`, edit, undefined, signal)
      return { change, plugin: viewPlugin(control, name) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/plugins/{name}/versions/{digest}',
    id: 'deleteVersion',
    summary: 'Forget a version that gets no calls',
    answers: changed,
    async run({ params: { name = '', digest = '' }, expectRevision, signal }, control) {
      const edit = (changes: Changes): Changes => {
        expectRevision()
        return withPlugin(changes, name, withoutVersion(pluginOf(changes, name), digest))
      }
      const change = await control.change(`delete version of plug-in ${name}`, edit, undefined, signal)
      return { change, plugin: viewPlugin(control, name) }
    },
  },
]

function toShares(digest: string): Share[] {
  return [{ digest, percent: 100 }]
}

/** Files of this machine are not for who only holds a token: he has the bytes, or a URL. */
async function readBody(
  { body, expectDownload, signal }: ApiRequest,
  control: Control,
): Promise<{ source: Source; from: 'upload' | 'url' }> {
  if (body instanceof Uint8Array) {
    if (body.length === 0) throw new AdminRequestError('The body is empty: it has to be a module')
    return { source: await readSource(body, { signal }), from: 'upload' }
  }
  const { source } = body as { readonly source: string }
  if (!isUrl(source) || /^file:/i.test(source)) throw new AdminForbiddenError('A plug-in from a file')
  expectDownload()
  return { source: await control.download(source, signal), from: 'url' }
}
