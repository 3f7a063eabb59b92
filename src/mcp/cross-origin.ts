import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply } from 'fastify'

/*
 * CORS for the endpoint: web pages of other origins that may use it need no further option of the server.
 *
 * @see https://fetch.spec.whatwg.org/#http-cors-protocol
 */

/** The methods that clients try: those that are refused, too, so that a page can read the refusal. */
const METHODS = 'POST, GET, DELETE'

/** Headers of answers that clients read. */
const EXPOSED = 'mcp-session-id, retry-after, www-authenticate, x-request-id'

/** Lets the page of a request read the answer. @param origin - One that may use the endpoint. */
export function letPageRead(origin: string, reply: FastifyReply): void {
  reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', EXPOSED)
  varyBy('origin', reply)
}

/** Answers that a page may send its request. Tools may name headers of their own: those that it asks for are allowed. */
export function allowRequest(headers: IncomingHttpHeaders, reply: FastifyReply): void {
  const { 'access-control-request-headers': wanted } = headers
  reply.header('access-control-allow-methods', METHODS).header('access-control-max-age', '600')
  if (wanted !== undefined) reply.header('access-control-allow-headers', wanted)
  varyBy('access-control-request-headers', reply)
  reply.code(204).send()
}

function varyBy(name: string, reply: FastifyReply): void {
  const given = [reply.getHeader('vary') ?? []].flat().map(String)
  reply.header('vary', [...given, name].join(', '))
}
