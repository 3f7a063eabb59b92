import type { IncomingMessage } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Deployments, MakeDesired } from '../../deploy/deployments.ts'
import {
  pluginOf,
  type Share,
  storedBytes,
  toVersion,
  trafficOf,
  versionOf,
  withoutPlugins,
  withoutVersion,
  withPlugins,
  withRoute,
  withVersion,
} from '../../deploy/edits.ts'
import { AdminConflictError, AdminForbiddenError, AdminRequestError } from '../../errors/errors.ts'
import { ChunkList } from '../../platform/chunks.ts'
import { readModule, type Source } from '../../plugin/source/source.ts'
import { isUrl } from '../../plugin/source/url.ts'
import { tooLarge } from '../../route/body.ts'
import { type ApiRequest, applyEdit, type Endpoint } from './endpoint.ts'
import { refuseLast, showDeployment, viewPlugin } from './route-endpoints.ts'
import { bodies, ref } from './schemas.ts'

/** Valid names of added plug-ins: they appear in URLs, logs and metrics. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

const changed = {
  200: { description: 'The plug-in is live.', schema: ref('ChangedPlugin') },
} as const

export const pluginEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/plugins/{name}',
    id: 'showPlugin',
    summary: 'One plug-in',
    answers: { 200: { description: 'The plug-in.', schema: ref('Plugin') } },
    run: async ({ params: { name = '' } }, deployments) =>
      viewPlugin(await showDeployment(deployments), name),
  },
  {
    method: 'PUT',
    path: '/api/plugins/{name}',
    id: 'putPlugin',
    summary: 'Add a plug-in, or a version of one',
    description:
      'The body is a module, or names the URL of a module or manifest, or an artifact of a registry, or has a module with its signature. After a trial start the new version serves all routes of the plug-in. With `live=false` it gets no calls yet.',
    query: { live: { type: 'string', enum: ['true', 'false'], default: 'true' } },
    body: bodies.source,
    takesBytes: true,
    answers: { ...changed, 201: { description: 'The plug-in was added.', schema: ref('ChangedPlugin') } },
    async run(request, deployments, reply) {
      const { params, query } = request
      const { name = '' } = params
      const known = deployments.current.edits.plugins.get(name)
      if (!known && !NAME.test(name))
        throw new AdminRequestError(
          'A plug-in name has at most 64 letters, digits, dots, dashes and underscores, and starts with a letter or digit',
        )
      const { source, from } = await readUpload(request, deployments)
      const version = toVersion({ ...source, file: known?.versions[0]?.name ?? name }, from)
      const all = { digest: version.digest, percent: 100 }
      const modules = storedBytes(source.modules)
      const reason = `put plug-in ${name}`
      const put: MakeDesired = (now) => {
        const before = now.edits.plugins.get(name)
        const plugin = withVersion(before ?? { added: true, versions: [], traffic: [] }, version)
        const traffic = query.live === 'false' && before ? before.traffic : [all]
        return { ...now, edits: withPlugins(now.edits, [[name, { ...plugin, traffic }]]) }
      }
      const change = await applyEdit(deployments, request, reason, put, modules)
      if (!known) reply.code(201)
      return { change, plugin: viewPlugin(await showDeployment(deployments), name) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/plugins/{name}',
    id: 'deletePlugin',
    summary: 'Remove a plug-in',
    description:
      'A plug-in with routes is removed only with `routes=true`, together with its routes. Running calls complete.',
    query: { routes: { type: 'string', enum: ['true', 'false'], default: 'false' } },
    answers: { 200: { description: 'The plug-in was removed.', schema: ref('Changed') } },
    async run(request, deployments) {
      const { params, query } = request
      const { name = '' } = params
      const remove: MakeDesired = async (now) => {
        const { added } = pluginOf(now.edits, name)
        const { byId, byName } = (await showDeployment(deployments)).routes
        const routes = byName.get(name) ?? []
        if (routes.length > 0 && query.routes !== 'true')
          throw new AdminConflictError(
            `The plug-in has routes (${renderUrls(routes)}): remove them first, or set routes=true`,
          )
        refuseLast(byId.size - routes.length)
        const without = routes.reduce((all, { id }) => withRoute(all, id, { options: undefined }), now.edits)
        return { ...now, edits: added ? withoutPlugins(without, [name]) : without }
      }
      return { change: await applyEdit(deployments, request, `delete plug-in ${name}`, remove) }
    },
  },
  {
    method: 'PUT',
    path: '/api/plugins/{name}/traffic',
    id: 'splitTraffic',
    summary: 'Split calls between versions',
    description:
      'One version with 100 percent, or two whose percentages add up to 100. Of any 100 consecutive calls of a route, exactly that many go to the second version.',
    body: bodies.traffic,
    answers: changed,
    async run(request, deployments) {
      const { name = '' } = request.params
      const traffic = request.body as readonly Share[]
      if (traffic.reduce((sum, { percent }) => sum + percent, 0) !== 100)
        throw new AdminRequestError('The percentages must add up to 100')
      const split: MakeDesired = (now) => {
        const plugin = pluginOf(now.edits, name)
        const shares = traffic.map((share) => ({ ...share, digest: versionOf(plugin, share.digest).digest }))
        if (shares[0]?.digest === shares[1]?.digest) throw new AdminRequestError('The versions must differ')
        return { ...now, edits: withPlugins(now.edits, [[name, { ...plugin, traffic: shares }]]) }
      }
      const change = await applyEdit(deployments, request, `split plug-in ${name}`, split)
      return { change, plugin: viewPlugin(await showDeployment(deployments), name) }
    },
  },
  {
    method: 'POST',
    path: '/api/plugins/{name}/rollback',
    id: 'rollBack',
    summary: 'Roll back to an earlier version',
    description: 'To the given version. Default: the version added before the live one.',
    body: bodies.rollback,
    answers: changed,
    async run(request, deployments) {
      const { name = '' } = request.params
      const { digest } = (request.body ?? {}) as { readonly digest?: string }
      const back: MakeDesired = (now) => {
        const plugin = pluginOf(now.edits, name)
        const live = plugin.versions.findIndex((version) => version.digest === trafficOf(plugin)[0]?.digest)
        const to = digest === undefined ? plugin.versions[live + 1] : versionOf(plugin, digest)
        if (!to) throw new AdminConflictError('There is no earlier version')
        return {
          ...now,
          edits: withPlugins(now.edits, [
            [name, { ...plugin, traffic: [{ digest: to.digest, percent: 100 }] }],
          ]),
        }
      }
      const change = await applyEdit(deployments, request, `roll back plug-in ${name}`, back)
      return { change, plugin: viewPlugin(await showDeployment(deployments), name) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/plugins/{name}/versions/{digest}',
    id: 'deleteVersion',
    summary: 'Remove a version that gets no calls',
    answers: changed,
    async run(request, deployments) {
      const { name = '', digest = '' } = request.params
      const forget: MakeDesired = (now) => {
        const plugin = withoutVersion(pluginOf(now.edits, name), digest)
        return { ...now, edits: withPlugins(now.edits, [[name, plugin]]) }
      }
      const change = await applyEdit(deployments, request, `delete version of plug-in ${name}`, forget)
      return { change, plugin: viewPlugin(await showDeployment(deployments), name) }
    },
  },
]

/** The number of URLs in a message. */
const SHOWN_URLS = 10

function renderUrls(routes: readonly { readonly served: { readonly url: string } }[]): string {
  const shown = routes.slice(0, SHOWN_URLS).map(({ served }) => served.url)
  const more = routes.length - shown.length
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join(', ')
}

/** Holders of the token get no access to files of this machine: they send bytes or a URL. */
async function readUpload(
  { body, expectDownload, signal }: ApiRequest,
  deployments: Deployments,
): Promise<{ source: Source; from: 'upload' | 'url' }> {
  const { wasm, bundle, source } = body instanceof Uint8Array ? { wasm: body } : ((body ?? {}) as UploadBody)
  if ((wasm === undefined) === (source === undefined))
    throw new AdminRequestError('The body must have either source or wasm')
  if (wasm !== undefined) {
    const bytes = typeof wasm === 'string' ? new Uint8Array(Buffer.from(wasm, 'base64')) : wasm
    if (bytes.length === 0) throw new AdminRequestError('The body is empty: send a module')
    const { sources } = deployments.current
    const signature = bundle === undefined ? undefined : Buffer.from(bundle)
    return { source: await readModule(bytes, { ...sources, bundle: signature, signal }), from: 'upload' }
  }
  if (source === undefined || !isUrl(source) || /^file:/i.test(source))
    throw new AdminForbiddenError('A plug-in from a file')
  expectDownload()
  return { source: await deployments.download(source, signal), from: 'url' }
}

/** The body of an upload: either `source` or `wasm`. */
interface UploadBody {
  readonly source?: string
  readonly wasm?: string | Uint8Array
  readonly bundle?: string
}

/**
 * Reads a body.
 *
 * @throws {@link BodyTooLargeError} if it has more than `limit` bytes, {@link AdminRequestError} if it is incomplete.
 */
export async function readBytes(body: IncomingMessage, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const declared = Number(body.headers['content-length'])
  if (declared > limit) throw tooLarge(limit)
  const chunks = new ChunkList()
  let length = 0
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error) => {
      body.off('data', take).off('end', end)
      reject(error)
    }
    const take = (chunk: Uint8Array) => {
      length += chunk.length
      if (length > limit) fail(tooLarge(limit))
      else chunks.add(chunk)
    }
    const end = () => {
      if (Number.isNaN(declared) || length === declared) resolve()
      else fail(new AdminRequestError('The body is shorter or longer than its Content-Length'))
    }
    body
      .on('data', take)
      .once('end', end)
      .once('error', (error) => fail(broken(error)))
  })
  const bytes = new Uint8Array(length)
  let at = 0
  let turnEnd = SLICE_BYTES
  for (const chunk of chunks.list) {
    bytes.set(chunk, at)
    at += chunk.length
    if (at < turnEnd) continue
    turnEnd = at + SLICE_BYTES
    await nextTurn()
  }
  return bytes
}

/** Bytes that are copied in a turn of the event loop: some 0.5 ms. Those of 27 MB would block it for 20 ms. */
const SLICE_BYTES = 1_048_576

/** Errors of the HTTP server for a malformed or late body have a status. */
function broken(error: Error & { statusCode?: number }): Error {
  return error.statusCode === undefined
    ? new AdminRequestError(`The body is incomplete: ${error.message}`)
    : error
}
