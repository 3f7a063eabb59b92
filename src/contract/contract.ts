import type { FastifyReply, FastifyRequest } from 'fastify'

/** How an HTTP exchange becomes guest bytes and back. One is opened for each route. */
export interface Contract {
  /** The bytes that the guest gets as its input. */
  input(request: FastifyRequest): Uint8Array

  /** Answers with what the guest produced. */
  answer(output: Uint8Array, reply: FastifyReply): void
}
