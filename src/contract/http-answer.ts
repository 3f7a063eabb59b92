import type { FastifyReply } from 'fastify'

/** A validated HTTP answer. */
export interface HttpAnswer {
  /** From 200 to 599. */
  readonly status: number
  /** The headers by their names in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>
  /** The default if neither the headers nor the route has a content type. */
  readonly body: { readonly bytes: Uint8Array; readonly type: string } | undefined
}

/**
 * Sends an answer. HEAD gets the length of the omitted body; statuses that allow no body get none. (RFC 9110, section 15)
 *
 * @param contentType - The route's content type.
 */
export function sendAnswer(answer: HttpAnswer, contentType: string | undefined, reply: FastifyReply): void {
  const { status, headers, body } = answer
  const hasBody = !BODILESS.has(status)
  reply.code(status)
  for (const [name, values] of headers)
    if (hasBody || !DESCRIBING.has(name)) reply.header(name, values.length === 1 ? values[0] : [...values])
  if (status === 204 || status === 304) {
    reply.send()
  } else if (status === 205 || !body) {
    reply.header('content-length', '0').send() // Fastify sets it except for HEAD
  } else {
    if (!headers.has('content-type')) reply.header('content-type', contentType ?? body.type)
    reply.send(body.bytes)
  }
}

/** The statuses of answers without a body. (RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5) */
export const BODILESS: ReadonlySet<number> = new Set([204, 205, 304])

/**
 * Names of headers that describe a body, in lower case. They are left out of responses without a body: a cache would apply those of a
 * 304 to the body that it has stored (RFC 9111, section 3.2). `content-length` is not one of them: a 205 has `content-length: 0`.
 */
export const DESCRIBING: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-language',
  'content-range',
  'content-type',
])

/** The problem of a guest's answer, without quoting it. The contract converts it to its own error. */
export class AnswerProblem extends Error {
  override readonly name = 'AnswerProblem'
}

export function notJson(): AnswerProblem {
  return new AnswerProblem('the output is not JSON')
}
