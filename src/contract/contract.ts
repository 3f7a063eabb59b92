import type { FastifyReply, FastifyRequest } from 'fastify'

/**
 * How an HTTP exchange becomes guest bytes and back. One is opened for each route; a user of the library can pass one of
 * his own as the route's `contract`. Both functions are called for each request, on the event loop: what can be prepared
 * is prepared when the contract is made.
 */
export interface Contract {
  /** What it is called in the banner and in {@link ServedRoute}. */
  readonly name: string

  /**
   * The bytes that the guest gets as its input. They belong to the engine from then on.
   *
   * @param request - Its `body` is a `Uint8Array` of all that the client sent, whatever the content type, or undefined.
   * @throws anything, before the guest is called: an error of ours is answered with its status, another goes to the
   * app's error handler.
   */
  input(request: FastifyRequest): Uint8Array

  /**
   * Answers with what the guest produced. It has to send the reply, and has to expect any bytes. It is not called if
   * the call failed: the route answers then, with `errorStatus` where the guest itself said no.
   *
   * @param reply - Has the route's `headers` and the request id already.
   * @throws {@link ContractBrokenError} if the output makes no answer; nothing may have been sent or set then.
   */
  answer(output: Uint8Array, reply: FastifyReply): void
}

/** What the contracts read of a route's options. */
export interface ContractOptions {
  /** Of the answers, where the guest does not say. */
  readonly contentType?: string | undefined
}
