import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Deployments, MakeDesired } from '../../deploy/deployments.ts'
import type { ChangeRecord } from '../../deploy/desired-state.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'

/** One thing that the admin API can do. The routes and their description are made from it. */
export interface Endpoint {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** With `{name}` for what stands for a name. */
  readonly path: string
  /** What it is called in the description. */
  readonly id: string
  readonly summary: string
  readonly description?: string
  /** Of the query; they are texts, and may all be left out. */
  readonly query?: Readonly<Record<string, JsonSchema>>
  readonly body?: JsonSchema
  /** Whether the body may be a module's bytes too. */
  readonly takesBytes?: true
  readonly answers: Readonly<Record<number, { readonly description: string; readonly schema: JsonSchema }>>
  /** @returns what is answered, as JSON; 200 unless the reply has another status. */
  run(request: ApiRequest, deployments: Deployments, reply: FastifyReply): unknown
}

/** A request whose form was checked. */
export interface ApiRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string | undefined>>
  readonly body: unknown
  /** Refuses, in its turn, what was not meant for what is served now. (`If-Match`) */
  expectRevision(): void
  /** To be called before a download. @throws {@link AdminBusyError} if other requests hold too much already. */
  expectDownload(): void
  /** Says that the client has gone: nobody waits for the answer. */
  readonly signal: AbortSignal
}

/**
 * Applies what a request asks for, if the revision is the one that it was meant for.
 *
 * @param modules - Bytes that it brings along, by digest.
 * @throws why it is not live.
 */
export async function applyEdit(
  deployments: Deployments,
  { expectRevision, signal }: ApiRequest,
  reason: string,
  make: MakeDesired,
  modules?: ReadonlyMap<string, Uint8Array>,
): Promise<ChangeRecord | undefined> {
  const checked: MakeDesired = (now, reread) => {
    expectRevision()
    return make(now, reread)
  }
  const { record } = await deployments.apply(checked, reason, { signal, modules, isEdit: true })
  return record
}

/** The revision that is served, as an entity tag: of this process, so that none of another is taken for it. */
export function entityTag({ current }: Deployments): string {
  return `"${BOOT}-${current.revision}"`
}

const BOOT = Math.floor(performance.timeOrigin).toString(36)

/** Whether a request's `If-Match` allows a change. */
export function matches({ headers }: FastifyRequest, tag: string): boolean {
  const wanted = headers['if-match']
  if (wanted === undefined || wanted.trim() === '*') return true
  return wanted.split(',').some((one) => one.trim().replace(/^W\//, '') === tag)
}
