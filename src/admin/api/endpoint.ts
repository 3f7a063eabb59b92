import type { FastifyReply } from 'fastify'
import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import type { Deployments, MakeDesired } from '../../deploy/deployments.ts'
import type { ChangeRecord } from '../../deploy/desired-state.ts'
import { EDITABLE_OPTIONS } from '../../deploy/edits.ts'
import { AdminRequestError, RevisionMismatchError } from '../../errors/errors.ts'
import { didYouMean } from '../../platform/text.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'

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
}

/** The description of an endpoint. */
export type EndpointDescription = Omit<Endpoint, 'run'>

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
export function entityTag({ tag }: Deployments): string {
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
