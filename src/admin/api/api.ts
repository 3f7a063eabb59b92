import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import {
  AdminRequestError,
  MountConflictError,
  RouteConflictError,
  ServerStartingError,
} from '../../errors/errors.ts'
import { hasOwnCode } from '../../errors/failure.ts'
import { packageVersion } from '../../platform/packages.ts'
import { explainLimit } from '../../platform/system-errors.ts'
import { type KnownError, PROBLEM_TYPE, problemDetails, sendAnyError } from '../../route/error-response.ts'
import type { AdminContext, AdminFeature, ServerView } from '../feature.ts'
import { changeEndpoints, consoleEndpoints, viewBehind } from './console-endpoints.ts'
import { addEndpoint, type Endpoint, type EndpointDescription, holdBodies, queryOf } from './endpoint.ts'
import { fleetEndpoints } from './fleet-endpoints.ts'
import { listEndpoints } from './list-endpoints.ts'
import { pluginEndpoints, readBytes } from './plugin-endpoints.ts'
import { processEndpoints } from './process-endpoints.ts'
import { routeEndpoints } from './route-endpoints.ts'
import { ref, SCHEMAS } from './schemas.ts'
import { STREAMED_CALLS } from './streamed-calls.ts'

/** Content types of a module's bytes. */
const BYTES = ['application/wasm', 'application/octet-stream']

const WRONG_TYPE = 'The content type of the body must be application/json, or application/wasm for a module'

function overviewEndpoint({ served }: AdminContext): Endpoint {
  return {
    method: 'GET',
    path: '/api',
    id: 'overview',
    summary: 'Server overview',
    answers: { 200: { description: 'The server overview.', schema: ref('Overview') } },
    run: (_request, { current, revision, log: { applied, refused }, behind }) => ({
      revision,
      routes: current.served.length,
      plugins: current.edits.plugins.size,
      changed:
        current.edits.routes.size > 0 ||
        [...current.edits.plugins.values()].some(({ added, traffic }) => added || traffic.length > 0),
      changes: { applied, refused },
      behind: behind && viewBehind(behind),
      url: served.server.url,
      state: served.state,
    }),
    whileStarting: () => ({
      ...{ revision: 0, routes: 0, plugins: 0, changed: false },
      changes: { applied: 0, refused: 0 },
      state: served.state,
    }),
  }
}

/** All endpoints of the API. */
export function endpointsOf(context: AdminContext): readonly Endpoint[] {
  return [
    ...[overviewEndpoint(context), ...changeEndpoints, ...listEndpoints(context)],
    ...[...pluginEndpoints, ...routeEndpoints],
    ...processEndpoints(context),
    ...fleetEndpoints(context),
    ...consoleEndpoints(context),
  ]
}

/** The admin API, which reads and changes the served plug-ins and routes, and `/openapi.json`, which describes it. */
export const addApi: AdminFeature = (app, context) => {
  const { served, options, processes } = context
  if (processes) app.addHook('onRequest', () => processes.refresh())
  const { uploadLimit } = options
  app.addContentTypeParser(BYTES, (_request: FastifyRequest, body: IncomingMessage) =>
    readBytes(body, uploadLimit),
  )
  app.addContentTypeParser('*', (_request, _body, done) => done(new AdminRequestError(WRONG_TYPE)))
  app.setErrorHandler(errorSender(served))
  if (served.secrets)
    app.addHook('preSerialization', async (_request, _reply, payload) => hideSecrets(payload, served))
  const all = endpointsOf(context)
  const hold = holdBodies(app, uploadLimit)
  for (const endpoint of all) addEndpoint(app, endpoint, served, uploadLimit, hold)
  app.get('/openapi.json', () => apiDocument([...all, ...STREAMED_CALLS]))
  app.get('/routes/openapi.json', async () => {
    const { deployments } = served.server
    if (!deployments) throw new ServerStartingError()
    const { routes } = deployments.current
    const { routesDocument } = await import('../../route/openapi/routes-document.ts')
    const { readXtpSchemas } = await import('../../route/openapi/xtp-schema.ts')
    const { server } = served
    return routesDocument(server.routes, await readXtpSchemas(routes.map(({ target }) => target)), server.url)
  })
}

/** Masks values that came from the environment into the configuration. */
function hideSecrets(payload: unknown, { secrets }: ServerView): unknown {
  return secrets ? JSON.parse(secrets.hideInJson(JSON.stringify(payload))) : payload
}

/** Most refused changes are the client's fault (4xx): the submitted content cannot be served. A limit of the system is not. */
function errorSender(served: ServerView) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    const isChange = request.method !== 'GET' && hasOwnCode(error) && (error.statusCode ?? 500) >= 500
    if (!isChange || ADMIN_CODES.has(error.code) || explainLimit(error) !== undefined) {
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
const ADMIN_CODES: ReadonlySet<string> = new Set([
  'WASM_SERVE_INTERNAL_ERROR',
  'WASM_SERVE_CHANGE_REFUSED',
  'WASM_SERVE_ADMIN_BUSY',
  'WASM_SERVE_FILES_UNSETTLED',
  'WASM_SERVE_FLEET_UNAVAILABLE',
  'WASM_SERVE_PROCESS_ENDED',
  'WASM_SERVE_STARTING',
  'WASM_SERVE_STATE_INVALID',
  'WASM_SERVE_STATE_UNTRUSTED',
  'WASM_SERVE_STATE_UNWRITABLE',
])

/** Failures that every endpoint may answer with, and those of changes. */
const FAILURES = {
  all: [401, 403, 404, 503],
  changes: [400, 409, 412, 413, 422, 507],
} as const

/** Describes the admin API. (OpenAPI 3.1) */
function apiDocument(endpoints: readonly EndpointDescription[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const endpoint of endpoints) {
    const { path, method } = endpoint
    paths[path] = { ...paths[path], [method.toLowerCase()]: endpointOperation(endpoint) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Admin API of wasm-serve',
      version: packageVersion(),
      description: 'Reads and changes the plug-ins and routes of a running server.',
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: SCHEMAS,
    },
  }
}

function endpointOperation({
  id,
  summary,
  description,
  method,
  answers,
  ...endpoint
}: EndpointDescription): object {
  const failures = [...FAILURES.all, ...(method === 'GET' ? [] : FAILURES.changes)]
  return {
    operationId: id,
    summary,
    ...(description !== undefined && { description }),
    parameters: [
      ...pathParameters(endpoint.path),
      ...queryParameters({ method, ...endpoint }),
      ...ifMatch(method),
    ],
    ...((endpoint.body || endpoint.takesStream) && { requestBody: requestBody(endpoint) }),
    responses: Object.fromEntries([
      ...Object.entries(answers).map(([status, { description, headers, schema, ...answer }]) => [
        status,
        {
          description,
          headers: { ...HEADERS, ...headers },
          content: { [answer.contentType ?? 'application/json']: { schema } },
        },
      ]),
      ...failures.map((status) => [
        status,
        {
          description: STATUS_CODES[status],
          content: { 'application/problem+json': { schema: ref('Problem') } },
        },
      ]),
    ]),
  }
}

const HEADERS = {
  etag: { description: 'The current revision, for `If-Match`.', schema: { type: 'string' } },
}

function pathParameters(path: string): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
}

function queryParameters(endpoint: Pick<Endpoint, 'method' | 'query'>): object[] {
  return Object.entries(queryOf(endpoint)).map(([name, schema]) => ({ name, in: 'query', schema }))
}

function ifMatch(method: Endpoint['method']): object[] {
  if (method === 'GET') return []
  const description =
    'The `ETag` of an earlier response. The change is refused if the revision has changed since.'
  return [{ name: 'If-Match', in: 'header', description, schema: { type: 'string' } }]
}

function requestBody({ body, takesBytes, takesStream, path }: EndpointPart): object {
  if (takesStream) return { required: true, content: { 'application/octet-stream': {} } }
  return {
    required: !path.endsWith('/rollback'),
    content: { 'application/json': { schema: body }, ...(takesBytes && { 'application/wasm': {} }) },
  }
}

type EndpointPart = Pick<Endpoint, 'body' | 'takesBytes' | 'takesStream' | 'path'>
