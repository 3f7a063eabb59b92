import type { FastifyReply, FastifyRequest } from 'fastify'

/**
 * Converts an HTTP request to the guest's input and its output to an answer. One is opened per route; users of the library
 * can pass their own as the route's `contract`. Both functions run for each request on the event loop, so do expensive
 * preparation when the contract is created.
 */
export interface Contract {
  /** The name in the banner and in {@link ServedRoute}. */
  readonly name: string

  /**
   * The guest's input for a request. The engine owns the bytes from then on.
   *
   * @param request - Its `body` is a `Uint8Array` of the complete body, for any content type, or undefined.
   * @throws any error, before the guest is called: errors of wasm-serve are answered with their status, others go to the
   * app's error handler.
   */
  input(request: FastifyRequest): Uint8Array

  /**
   * Answers with the guest's output, which may be any bytes. It must send the reply. It is not called if the call failed:
   * then the route answers, with `errorStatus` if the guest returned an error.
   *
   * @param reply - Already has the route's `headers` and the request id.
   * @throws {@link ContractBrokenError} if the output is invalid; nothing may have been sent or set then.
   */
  answer(output: Uint8Array, reply: FastifyReply): void
}

/** The route options that contracts use. */
export interface ContractOptions {
  /** The content type of answers for which the guest sets none. */
  readonly contentType?: string | undefined
}
