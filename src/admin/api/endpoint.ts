import type { FastifyInstance, FastifyReply, FastifyRequest, preValidationHookHandler } from 'fastify'
import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import type { ChangeRecord, Deployments, MakeDesired } from '../../deploy/deployments.ts'
import { EDITABLE_OPTIONS } from '../../deploy/edits.ts'
import {
  AdminBusyError,
  AdminRequestError,
  ChangeRefusedError,
  RevisionMismatchError,
  ServerStartingError,
  UsageError,
} from '../../errors/errors.ts'
import { type FlagKind, kindOf, parseValue } from '../../options/flags.ts'
import { routeSchema } from '../../options/options-schema.ts'
import { type Schema, schemasOf } from '../../options/schema.ts'
import { isObject } from '../../platform/json-text.ts'
import { didYouMean, printable } from '../../platform/text.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'
import type { ServerView } from '../feature.ts'
import { bodies } from './schemas.ts'

/** An endpoint of the admin API. Its route and its OpenAPI description are generated from it. */
export interface Endpoint {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** The path, with parameters such as `{name}`. */
  readonly path: string
  /** The summary in the OpenAPI description. */
  readonly id: string
  readonly summary: string
  readonly description?: string
  /** Parameters of the query. All are optional strings. */
  readonly query?: Readonly<Record<string, JsonSchema>>
  readonly body?: JsonSchema
  /** Whether the body may also be the bytes of a module. */
  readonly takesBytes?: true
  /** Whether the body is any bytes, without a limit. */
  readonly takesStream?: true
  readonly answers: Readonly<Record<number, EndpointAnswer>>
  /** @returns the JSON answer; its status is 200 unless the reply has another. */
  run(request: ApiRequest, deployments: Deployments, reply: FastifyReply): unknown
  /** The answer while the server starts. Default: a failure. */
  whileStarting?(): object
}

/** The description of an endpoint. */
export type EndpointDescription = Omit<Endpoint, 'run' | 'whileStarting'>

/** The description of an answer. */
interface EndpointAnswer {
  readonly description: string
  /** Default: JSON. */
  readonly contentType?: string
  /** Headers besides the `ETag`. */
  readonly headers?: Readonly<Record<string, { readonly description: string; readonly schema: JsonSchema }>>
  readonly schema: JsonSchema
}

/** A validated request. */
export interface ApiRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string | undefined>>
  readonly body: unknown
  /** See {@link expectRevision}. */
  readonly ifMatch: string | undefined
  /** Who sends it, as its `From` header says. */
  readonly by: string | undefined
  /** Call before a download. @throws {@link AdminBusyError} if other requests hold too much memory. */
  expectDownload(): void
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
}

/** Reserves memory for a request, instead of what it has. @throws {@link AdminBusyError} if others have too much. */
type Reserve = (bytes: number) => void

/**
 * Rejects a body, before it is read, that does not fit into the memory limit shared by all requests.
 *
 * @param bodyLimit - Maximum size of one body, in bytes.
 * @returns the memory of a request. Its handler releases it, because a change that is about to go live continues after
 * its client has disconnected.
 */
export function holdBodies(app: FastifyInstance, bodyLimit: number): (request: FastifyRequest) => Reserve {
  const limit = MAX_BODIES_IN_MEMORY * bodyLimit
  let sum = 0
  const held = new WeakMap<FastifyRequest, number>()
  const handled = new WeakSet<FastifyRequest>()
  const reserve = (request: FastifyRequest, bytes: number) => {
    const more = bytes - (held.get(request) ?? 0)
    if (sum + more > limit) throw new AdminBusyError(limit)
    sum += more
    held.set(request, bytes)
  }
  app.addHook('onRequest', async (request, reply) => {
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers
    const declared = length === undefined && coding !== undefined ? bodyLimit : Number(length ?? 0)
    if (declared > bodyLimit) reply.header('connection', 'close') // the client sends the body anyway
    try {
      reserve(request, Math.min(declared, bodyLimit))
    } catch (error) {
      reply.header('connection', 'close') // the client may continue to send
      throw error
    }
    reply.raw.once('close', () => handled.has(request) || reserve(request, 0))
  })
  return (request) => {
    handled.add(request)
    return (bytes) => reserve(request, bytes)
  }
}

/** The number of bodies of the maximum size that may be in memory simultaneously. */
const MAX_BODIES_IN_MEMORY = 4

/** Adds the route of an endpoint. */
export function addEndpoint(
  app: FastifyInstance,
  endpoint: Endpoint,
  served: ServerView,
  bodyLimit: number,
  hold: ReturnType<typeof holdBodies>,
): void {
  const { method, path, body: schema, run, whileStarting } = endpoint
  app.route({
    method,
    url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit,
    schema: {
      querystring: { type: 'object', properties: queryOf(endpoint), additionalProperties: false },
      ...(schema && { body: { content: { 'application/json': { schema } } } }),
    },
    schemaErrorFormatter: toRequestError,
    preValidation: [refuseForm(endpoint), ...(schema === bodies.route ? [readUnits] : [])],
    async handler(request, reply) {
      const reserve = hold(request)
      const gone = new AbortController()
      const leave = () => gone.abort(new ChangeRefusedError('the client disconnected'))
      if (reply.raw.destroyed) leave()
      else reply.raw.once('close', leave)
      const { signal } = gone
      try {
        const { deployments } = served.server
        if (!deployments && whileStarting) return whileStarting()
        if (!deployments) throw new ServerStartingError()
        const { body, headers } = request
        const params = request.params as Record<string, string>
        const query = request.query as Record<string, string>
        const asked = { params, query, body, by: senderOf(headers), ifMatch: headers['if-match'], signal }
        const shown = entityTag(deployments)
        // The body of a request for a download was a few bytes of JSON.
        const payload = await run({ ...asked, expectDownload: () => reserve(bodyLimit) }, deployments, reply)
        const warnings = query.wait === 'applied' ? await deployments.applied?.(signal) : undefined
        // Another change may have gone live while the answer was made.
        reply.header('etag', method === 'GET' ? shown : entityTag(deployments))
        return warnings?.length ? withWarnings(payload as ChangeAnswer, warnings) : payload
      } finally {
        reply.raw.off('close', leave)
        reserve(0)
      }
    },
  })
}

/** The parameters of the query of an endpoint. */
export function queryOf({
  method,
  query = {},
}: Pick<Endpoint, 'method' | 'query'>): NonNullable<Endpoint['query']> {
  return method === 'GET' ? query : { ...query, wait: WAIT }
}

const WAIT: JsonSchema = {
  type: 'string',
  enum: ['applied'],
  description:
    'Respond when all reporting nodes of the fleet serve the change. Default: when it is live on this node.',
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

/** Sizes and times of a route's options may have units, as in a configuration file: `64KiB`, `5s`. */
const readUnits: preValidationHookHandler = ({ body }, _reply, done) => {
  if (isObject(body)) readUnitsIn(body, schemasOf(routeSchema))
  done()
}

function readUnitsIn(values: object, schemas: Readonly<Record<string, Schema>>): void {
  for (const [name, value] of Object.entries(values)) {
    const schema = Object.hasOwn(schemas, name) ? schemas[name] : undefined
    const kind = schema && kindOf(schema)
    if (typeof value === 'string' && (kind === 'time' || kind === 'size' || kind === 'pages'))
      Object.assign(values, { [name]: numberOf(kind, value, name) })
    else if (isObject(value) && schema?.properties) readUnitsIn(value, schema.properties)
  }
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

/** The characters of a sender that are kept. */
const MAX_SENDER = 200

/** The `From` header (RFC 9110, section 10.1.2). Nothing proves it. */
function senderOf({ from }: FastifyRequest['headers']): string | undefined {
  const text = from === undefined ? '' : printable(from).trim().slice(0, MAX_SENDER)
  return text === '' ? undefined : text
}

/** An answer to a change; that to a rollback of a fleet has no record. */
interface ChangeAnswer {
  readonly change?: Pick<ChangeRecord, 'warnings'> | undefined
}

function withWarnings({ change, ...answer }: ChangeAnswer, more: readonly string[]): object {
  return { ...(change && { change: { ...change, warnings: [...change.warnings, ...more] } }), ...answer }
}

/**
 * Applies the change that a request asks for, if the expected revision is current.
 *
 * @param modules - Bytes of new modules, by digest.
 * @throws the reason that the change is not live.
 */
export async function applyEdit(
  deployments: Deployments,
  { ifMatch, signal, by }: ApiRequest,
  reason: string,
  make: MakeDesired,
  modules?: ReadonlyMap<string, Uint8Array>,
): Promise<ChangeRecord | undefined> {
  const checked: MakeDesired = (now, reread) => {
    expectRevision(ifMatch, deployments)
    return make(now, reread)
  }
  const { record } = await deployments.apply(checked, reason, { signal, modules, isEdit: true, by })
  return record
}

/** The current revision as an entity tag. */
function entityTag({ tag }: Deployments): string {
  return `"${tag}"`
}

/**
 * Call it when it is the turn of a change.
 *
 * @param ifMatch - The `If-Match` of its request.
 * @throws {@link RevisionMismatchError} if it does not allow a change of the current revision.
 */
export function expectRevision(ifMatch: string | undefined, deployments: Deployments): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return
  const tag = entityTag(deployments)
  const isCurrent = ifMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === tag)
  if (!isCurrent) throw new RevisionMismatchError(ifMatch, tag)
}

/** Names all problems of a request that does not match its schema. */
export function toRequestError(errors: FastifySchemaValidationError[], part: string): Error {
  const problems = errors.map(({ instancePath, message, params }) => {
    const unknown = params.additionalProperty
    if (part === 'querystring')
      return unknown === undefined
        ? `Invalid value for query parameter ${instancePath.slice(1)}`
        : `Unknown query parameter ${String(unknown)}`
    const what = instancePath.slice(1) || 'the body'
    const unit =
      params.type === 'integer' && what.endsWith('Ms')
        ? ': a number of milliseconds, or a time such as "5s"'
        : ''
    if (unknown === undefined) return `${what} ${message}${unit}`
    return `${what} has the unknown field "${String(unknown)}"${didYouMean(String(unknown), EDITABLE_OPTIONS)}`
  })
  return new AdminRequestError(problems.join('; '))
}
