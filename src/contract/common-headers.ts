import type { FastifyReply } from 'fastify'

/** Sets what every answer carries: its request id, and a word to browsers to believe its content type. */
export function setCommonHeaders(reply: FastifyReply): void {
  reply.header('x-request-id', reply.request.id).header('x-content-type-options', 'nosniff')
}
