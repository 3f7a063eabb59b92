import type { FastifyReply } from 'fastify'

/** An answer that is known to be one that HTTP allows. */
export interface HttpAnswer {
  /** From 200 to 599. */
  readonly status: number
  /** By name in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>
  /** Its content type counts if neither the headers nor the route has one. */
  readonly body: { readonly bytes: Uint8Array; readonly type: string } | undefined
}

/**
 * Sends an answer. HEAD is answered with the length of the body that is left out; what HTTP does not let have a body goes
 * without it. (RFC 9110, section 15)
 *
 * @param contentType - Of the route.
 */
export function sendAnswer(answer: HttpAnswer, contentType: string | undefined, reply: FastifyReply): void {
  const { status, headers, body } = answer
  reply.code(status)
  for (const [name, values] of headers) reply.header(name, values.length === 1 ? values[0] : [...values])
  if (status === 204 || status === 304) {
    reply.send()
  } else if (status === 205 || !body) {
    reply.header('content-length', '0').send() // Fastify says it to all but HEAD
  } else {
    if (!headers.has('content-type')) reply.header('content-type', contentType ?? body.type)
    reply.send(body.bytes)
  }
}

/** What is wrong with an answer of a guest, without a word of it: the contract makes an error of its own of this. */
export class AnswerProblem extends Error {
  override readonly name = 'AnswerProblem'
}

export function notJson(): AnswerProblem {
  return new AnswerProblem('the output is not JSON')
}
