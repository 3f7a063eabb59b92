import type { IncomingMessage } from 'node:http'
import { Ajv, type ValidateFunction } from 'ajv'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  AdminRequestError,
  ChangeRefusedError,
  MountConflictError,
  RevisionMismatchError,
  RouteConflictError,
} from '../../errors/errors.ts'
import { isTooLarge } from '../../route/body.ts'
import { type KnownError, PROBLEM_TYPE, problemDetails, sendAnyError } from '../../route/error-response.ts'
import type { AdminRoom, RoomContext } from '../room.ts'
import type { Served } from '../served.ts'
import { apiDocument } from './api-document.ts'
import { changeEndpoints } from './change-endpoints.ts'
import { consoleEndpoints } from './console-endpoints.ts'
import type { Control } from './control.ts'
import { type Endpoint, entityTag, matches } from './endpoint.ts'
import { pluginEndpoints } from './plugin-endpoints.ts'
import { routeEndpoints } from './route-endpoints.ts'
import { ref } from './schemas.ts'
import { bodyBytes, type Held, readBytes, Uploads } from './uploads.ts'

/** Types of a module's bytes. */
const BYTES = ['application/wasm', 'application/octet-stream']

const WRONG_TYPE = 'The content type of the body has to be application/json, or application/wasm for a module'

const overview: Endpoint = {
  method: 'GET',
  path: '/api',
  id: 'overview',
  summary: 'What is served, in short',
  answers: { 200: { description: 'In short.', schema: ref('Overview') } },
  run: (_request, { changer, book }) => ({
    revision: changer.live.revision,
    routes: changer.live.routes.length,
    plugins: book.changes.plugins.size,
    changed:
      book.changes.routes.size > 0 ||
      [...book.changes.plugins.values()].some(({ added, traffic }) => added || traffic.length > 0),
    changes: { applied: changer.log.applied, refused: changer.log.refused },
  }),
}

/** All that the API can do. */
export function endpointsOf(context: RoomContext): readonly Endpoint[] {
  return [overview, ...changeEndpoints, ...pluginEndpoints, ...routeEndpoints, ...consoleEndpoints(context)]
}

/** The admin API, which shows and changes what is served, and `/openapi.json`, which describes it. */
export const addApi: AdminRoom = (app, context) => {
  const { served, options } = context
  const { uploadLimit: bodyLimit } = options
  app.addContentTypeParser(BYTES, (_request: FastifyRequest, body: IncomingMessage) =>
    readBytes(body, bodyLimit),
  )
  app.addContentTypeParser('*', (_request, _body, done) => done(new AdminRequestError(WRONG_TYPE)))
  app.setErrorHandler(errorSender(served))
  app.addHook('preSerialization', async (_request, _reply, payload) => hideSecrets(payload, served))
  const all = endpointsOf(context)
  const held = holdUploads(app, bodyLimit)
  for (const endpoint of all) addEndpoint(app, endpoint, served, bodyLimit, held)
  app.get('/openapi.json', () => apiDocument(all))
  app.get('/routes/openapi.json', async () => {
    const { planned } = controlOf(served).changer.live.wanted
    const { routesDocument } = await import('../../route/openapi/routes-document.ts')
    const { readXtpSchemas } = await import('../../route/openapi/xtp-schema.ts')
    return routesDocument(served.routes, await readXtpSchemas(planned), served.url)
  })
}

/**
 * Refuses a body, before it is read, that would be too much beside those of other requests.
 *
 * @returns what a request holds. It is for its handler to give back: a change that is about to go live goes on when its
 * client has left.
 */
function holdUploads(app: FastifyInstance, bodyLimit: number): (request: FastifyRequest) => Held {
  const uploads = new Uploads(bodyLimit)
  const all = new WeakMap<FastifyRequest, Held>()
  const taken = new WeakSet<Held>()
  app.addHook('onRequest', async (request, reply) => {
    const held = uploads.open()
    try {
      held.add(bodyBytes(request, bodyLimit))
    } catch (error) {
      reply.header('connection', 'close') // the client may go on sending
      throw error
    }
    if (isTooLarge(request.raw, bodyLimit)) reply.header('connection', 'close') // it is going to send it all the same
    all.set(request, held)
    reply.raw.once('close', () => taken.has(held) || held.release()) // it came to no handler
  })
  return (request) => {
    const held = all.get(request) ?? uploads.open()
    taken.add(held)
    return held
  }
}

function addEndpoint(
  app: FastifyInstance,
  endpoint: Endpoint,
  served: Served,
  bodyLimit: number,
  heldBy: (request: FastifyRequest) => Held,
): void {
  const { method, path, body, run } = endpoint
  const check = body && ajv.compile(body)
  app.route({
    method,
    url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit,
    async handler(request, reply) {
      const held = heldBy(request)
      const gone = new AbortController()
      const leave = () => gone.abort(new ChangeRefusedError('the client has gone'))
      if (reply.raw.destroyed) leave()
      else reply.raw.once('close', leave)
      try {
        return await answer(request, reply, held, gone.signal)
      } finally {
        reply.raw.off('close', leave)
        held.release()
      }
    },
  })

  const answer = async (
    request: FastifyRequest,
    reply: FastifyReply,
    held: Held,
    signal: AbortSignal,
  ): Promise<unknown> => {
    const control = controlOf(served)
    if (check) refuseBody(endpoint, check, request.body)
    const expectRevision = () => {
      const tag = entityTag(control)
      if (!matches(request, tag)) throw new RevisionMismatchError(request.headers['if-match'] ?? '', tag)
    }
    const params = request.params as Record<string, string>
    const query = queryOf(request, endpoint)
    const expectDownload = () => {
      held.release() // the body was a few bytes of JSON
      held.add(bodyLimit)
    }
    const asked = { params, query, body: request.body, expectRevision, expectDownload, signal }
    const payload = await run(asked, control, reply)
    reply.header('etag', entityTag(control))
    return path === '/api' ? { ...(payload as object), url: served.url, state: served.state } : payload
  }
}

const ajv = new Ajv({ allErrors: true, strict: false })

/** @throws {@link ChangeRefusedError} while the server starts. */
function controlOf({ control }: Served): Control {
  if (!control) throw new ChangeRefusedError('the server is starting')
  return control
}

function refuseBody({ takesBytes, method }: Endpoint, check: ValidateFunction, body: unknown): void {
  if (body instanceof Uint8Array) {
    if (takesBytes) return
    throw new AdminRequestError('The body has to be JSON')
  }
  if (check(body ?? (method === 'POST' ? {} : undefined))) return
  const problems = (check.errors ?? []).map(({ instancePath, message, params }) => {
    const unknown = 'additionalProperty' in params ? ` ("${params.additionalProperty}")` : ''
    return `${instancePath.slice(1) || 'the body'} ${message}${unknown}`
  })
  throw new AdminRequestError(problems.join('; '))
}

function queryOf({ query }: FastifyRequest, endpoint: Endpoint): Record<string, string> {
  const given = query as Record<string, unknown>
  for (const [name, value] of Object.entries(given)) {
    const choices = Object.hasOwn(endpoint.query ?? {}, name) ? endpoint.query?.[name]?.enum : undefined
    if (!choices?.includes(value))
      throw new AdminRequestError(`The query has ${name} wrong, or does not know it`)
  }
  return given as Record<string, string>
}

/** What came from the environment into the configuration is shown nowhere. */
function hideSecrets(payload: unknown, { control }: Served): unknown {
  return control ? JSON.parse(control.hideSecrets(JSON.stringify(payload))) : payload
}

/** Why a change is not live is the fault of who asked, but for a few: what was sent cannot be served. */
function errorSender(served: Served) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    const isChange = request.method !== 'GET' && error.code?.startsWith('WASM_SERVE_')
    if (!isChange || (error.statusCode ?? 500) < 500 || OURS.has(error.code)) {
      sendAnyError(error, request, reply)
      return
    }
    const isConflict = error instanceof MountConflictError || error instanceof RouteConflictError
    const { code, message } = error
    const known = { code, message, statusCode: isConflict ? 409 : 422 } as KnownError
    const problem = JSON.stringify(hideSecrets(problemDetails(known, request.id), served))
    reply.code(known.statusCode).header('content-type', PROBLEM_TYPE).send(Buffer.from(problem))
  }
}

/** Failures of the server itself. */
const OURS: ReadonlySet<string> = new Set([
  'WASM_SERVE_INTERNAL_ERROR',
  'WASM_SERVE_CHANGE_REFUSED',
  'WASM_SERVE_ADMIN_BUSY',
  'WASM_SERVE_FILES_UNSETTLED',
  'WASM_SERVE_STATE_INVALID',
  'WASM_SERVE_STATE_UNTRUSTED',
  'WASM_SERVE_STATE_UNWRITABLE',
])
