import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type {
  FastifyError,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  preValidationHookHandler,
} from 'fastify'
import type { Deployments } from '../../deploy/deployments.ts'
import type { ChangeRecord } from '../../deploy/desired-state.ts'
import {
  AdminRequestError,
  ChangeRefusedError,
  MountConflictError,
  RouteConflictError,
  ServerStartingError,
  UsageError,
} from '../../errors/errors.ts'
import { hasOwnCode } from '../../errors/failure.ts'
import { type FlagKind, kindOf, parseValue } from '../../options/flags.ts'
import { routeSchema } from '../../options/options-schema.ts'
import { schemasOf } from '../../options/schema.ts'
import { isObject } from '../../platform/json-text.ts'
import { packageVersion } from '../../platform/packages.ts'
import { explainLimit } from '../../platform/system-errors.ts'
import { printable } from '../../platform/text.ts'
import { isTooLarge } from '../../route/body.ts'
import { type KnownError, PROBLEM_TYPE, problemDetails, sendAnyError } from '../../route/error-response.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'
import type { AdminContext, AdminFeature, ServerView } from '../feature.ts'
import { changeEndpoints, consoleEndpoints, viewBehind } from './console-endpoints.ts'
import { type Endpoint, type EndpointDescription, entityTag, toRequestError } from './endpoint.ts'
import { fleetEndpoints } from './fleet-endpoints.ts'
import { listEndpoints } from './list-endpoints.ts'
import { bodyBytes, pluginEndpoints, readBytes, type UploadReservation, Uploads } from './plugin-endpoints.ts'
import { processEndpoints } from './process-endpoints.ts'
import { routeEndpoints } from './route-endpoints.ts'
import { ref, SCHEMAS } from './schemas.ts'
import { STREAMED_CALLS } from './streamed-calls.ts'

/** Content types of a module's bytes. */
const BYTES = ['application/wasm', 'application/octet-stream']

const WRONG_TYPE = 'The content type of the body must be application/json, or application/wasm for a module'

const overview: Endpoint = {
  method: 'GET',
  path: '/api',
  id: 'overview',
  summary: 'Server overview',
  answers: { 200: { description: 'The server overview.', schema: ref('Overview') } },
  run: (_request, { current: { served, edits }, revision, log: { applied, refused }, behind }) => ({
    revision,
    routes: served.length,
    plugins: edits.plugins.size,
    changed:
      edits.routes.size > 0 ||
      [...edits.plugins.values()].some(({ added, traffic }) => added || traffic.length > 0),
    changes: { applied, refused },
    behind: behind && viewBehind(behind),
  }),
}

/** The overview while the server starts. */
const NOTHING_YET = {
  ...{ revision: 0, routes: 0, plugins: 0, changed: false },
  changes: { applied: 0, refused: 0 },
}

/** All endpoints of the API. */
export function endpointsOf(context: AdminContext): readonly Endpoint[] {
  return [
    ...[overview, ...changeEndpoints, ...listEndpoints(context), ...pluginEndpoints, ...routeEndpoints],
    ...processEndpoints(context),
    ...fleetEndpoints(context),
    ...consoleEndpoints(context),
  ]
}

/** The admin API, which reads and changes the served plug-ins and routes, and `/openapi.json`, which describes it. */
export const addApi: AdminFeature = (app, context) => {
  const { served, options, processes } = context
  if (processes) app.addHook('onRequest', () => processes.refresh())
  const { uploadLimit: bodyLimit } = options
  app.addContentTypeParser(BYTES, (_request: FastifyRequest, body: IncomingMessage) =>
    readBytes(body, bodyLimit),
  )
  app.addContentTypeParser('*', (_request, _body, done) => done(new AdminRequestError(WRONG_TYPE)))
  app.setErrorHandler(errorSender(served))
  if (served.secrets)
    app.addHook('preSerialization', async (_request, _reply, payload) => hideSecrets(payload, served))
  const all = endpointsOf(context)
  const held = holdUploads(app, bodyLimit)
  for (const endpoint of all) addEndpoint(app, endpoint, served, bodyLimit, held)
  app.get('/openapi.json', () => apiDocument([...all, ...STREAMED_CALLS]))
  app.get('/routes/openapi.json', async () => {
    const { routes } = deploymentsOf(served).current
    const { routesDocument } = await import('../../route/openapi/routes-document.ts')
    const { readXtpSchemas } = await import('../../route/openapi/xtp-schema.ts')
    const { server } = served
    return routesDocument(server.routes, await readXtpSchemas(routes.map(({ target }) => target)), server.url)
  })
}

/**
 * Rejects a body, before it is read, that does not fit into the memory limit shared by all requests.
 *
 * @returns the reserved memory. The handler releases it, because a change that is about to go live continues after its
 * client has disconnected.
 */
function holdUploads(
  app: FastifyInstance,
  bodyLimit: number,
): (request: FastifyRequest) => UploadReservation {
  const uploads = new Uploads(bodyLimit)
  const all = new WeakMap<FastifyRequest, UploadReservation>()
  const taken = new WeakSet<UploadReservation>()
  app.addHook('onRequest', async (request, reply) => {
    const held = uploads.open()
    try {
      held.add(bodyBytes(request, bodyLimit))
    } catch (error) {
      reply.header('connection', 'close') // the client may continue to send
      throw error
    }
    if (isTooLarge(request.raw, bodyLimit)) reply.header('connection', 'close') // the client sends the body anyway
    all.set(request, held)
    reply.raw.once('close', () => taken.has(held) || held.release()) // no handler ran
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
  served: ServerView,
  bodyLimit: number,
  heldBy: (request: FastifyRequest) => UploadReservation,
): void {
  const { method, path, run } = endpoint
  app.route({
    method,
    url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit,
    schema: fastifySchema(endpoint),
    schemaErrorFormatter: toRequestError,
    preValidation: [refuseForm(endpoint), readUnits],
    async handler(request, reply) {
      const held = heldBy(request)
      const gone = new AbortController()
      const leave = () => gone.abort(new ChangeRefusedError('the client disconnected'))
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
    held: UploadReservation,
    signal: AbortSignal,
  ): Promise<unknown> => {
    if (path === '/api' && !served.server.deployments) return { ...NOTHING_YET, state: served.state }
    const deployments = deploymentsOf(served)
    const params = request.params as Record<string, string>
    const query = request.query as Record<string, string>
    const expectDownload = () => {
      held.release() // the body was a few bytes of JSON
      held.add(bodyLimit)
    }
    const { body, headers } = request
    const [by, ifMatch] = [senderOf(request), headers['if-match']]
    const asked = { params, query, body, by, ifMatch, expectDownload, signal }
    const shown = entityTag(deployments)
    const payload = await run(asked, deployments, reply)
    const warnings = query.wait === 'applied' ? await deployments.applied?.(signal) : undefined
    // Another change may have gone live while the answer was made.
    reply.header('etag', method === 'GET' ? shown : entityTag(deployments))
    if (path === '/api') return { ...(payload as object), url: served.server.url, state: served.state }
    return warnings?.length ? withWarnings(payload as ChangeAnswer, warnings) : payload
  }
}

/** An answer to a change; that to a rollback of a fleet has no record. */
interface ChangeAnswer {
  readonly change?: Pick<ChangeRecord, 'warnings'> | undefined
}

function withWarnings({ change, ...answer }: ChangeAnswer, more: readonly string[]): object {
  return { ...(change && { change: { ...change, warnings: [...change.warnings, ...more] } }), ...answer }
}

/** The characters of a sender that are kept. */
const MAX_SENDER = 200

/** The `From` header (RFC 9110, section 10.1.2). Nothing proves it. */
function senderOf({ headers: { from } }: FastifyRequest): string | undefined {
  const text = from === undefined ? '' : printable(from).trim().slice(0, MAX_SENDER)
  return text === '' ? undefined : text
}

/** @throws {@link ServerStartingError} during the start of the server. */
function deploymentsOf({ server: { deployments } }: ServerView): Deployments {
  if (!deployments) throw new ServerStartingError()
  return deployments
}

/** The parts of a request that Fastify validates. */
function fastifySchema({ body, ...endpoint }: Endpoint): FastifySchema {
  return {
    querystring: { type: 'object', properties: queryOf(endpoint), additionalProperties: false },
    ...(body && { body: { content: { 'application/json': { schema: body } } } }),
  }
}

/** Rejects a body of the wrong kind where no schema applies: binary, or missing. */
function refuseForm({ takesBytes, body: schema }: Endpoint): preValidationHookHandler {
  const isOptional = schema?.type === 'object' && schema.required?.length === 0
  return ({ body }, _reply, done) => {
    const isBytes = body instanceof Uint8Array
    const isWrong = schema && (isBytes ? !takesBytes : body === undefined && !isOptional)
    done(isWrong ? new AdminRequestError('The body must be JSON') : undefined)
  }
}

/** Sizes and times of options may have units, as in a configuration file: `64KiB`, `5s`. */
const readUnits: preValidationHookHandler = ({ body }, _reply, done) => {
  if (isObject(body))
    for (const [name, kind] of KINDS_WITH_UNIT) {
      const value = body[name]
      if (typeof value === 'string') Object.assign(body, { [name]: numberOf(kind, value, name) })
    }
  done()
}

/** A text that is no number of its kind stays, for the schema to refuse. */
function numberOf(kind: FlagKind, text: string, name: string): unknown {
  try {
    return parseValue(kind, text, name)
  } catch (error) {
    if (error instanceof UsageError) return text
    throw error
  }
}

/** The kinds of the options of routes whose values have a unit. */
const KINDS_WITH_UNIT: ReadonlyMap<string, FlagKind> = new Map(
  Object.entries(schemasOf(routeSchema)).flatMap(([name, schema]) => {
    const kind = kindOf(schema)
    return kind === 'time' || kind === 'size' || kind === 'pages' ? [[name, kind]] : []
  }),
)

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

function queryOf({ method, query = {} }: Pick<Endpoint, 'method' | 'query'>): NonNullable<Endpoint['query']> {
  return method === 'GET' ? query : { ...query, wait: WAIT }
}

const WAIT: JsonSchema = {
  type: 'string',
  enum: ['applied'],
  description:
    'Respond when all reporting nodes of the fleet serve the change. Default: when it is live on this node.',
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
