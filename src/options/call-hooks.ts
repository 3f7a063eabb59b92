import type { FastifyRequest } from 'fastify'
import type { ServedRoute } from './served-route.ts'

/**
 * Functions of the user around the calls of guests: as options of the Fastify plugin or of {@link createServer} for all
 * routes, as options of a route for that one. Those for all come first.
 *
 * A request gets as far as a call when its body was read: what is refused before (404, 405, 413) no hook sees. Each
 * request that does is told to `onResult` or to `onError`, once, unless `onCall` never settles.
 */
export interface CallHooks {
  /**
   * Called before the guest. The request waits for what it returns.
   *
   * @returns Bytes that the guest gets in place of its input, or nothing. A promise for either will do.
   * @throws anything, to refuse the call: the guest is not run, and the error is answered as any is. In the words of
   * wasm-serve that is a {@link CallRefusedError}; another goes to the error handler of the app, which in Fastify
   * answers with its `statusCode`.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a hook that returns nothing need not say so
  onCall?: ((call: GuestCall) => Uint8Array | void | Promise<Uint8Array | void>) | undefined

  /** Called when the answer is on its way. What it throws is logged, and changes nothing. */
  onResult?: ((result: GuestResult) => unknown) | undefined

  /** Called when an error is on its way in place of an answer. What it throws is logged, and changes nothing. */
  onError?: ((failure: FailedCall) => unknown) | undefined
}

/** A guest is about to be called. */
export interface GuestCall {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /**
   * What the contract made of the request, or what a hook before has put in its place. It is the engine's when the hook
   * has ended: who wants to keep it copies it.
   */
  readonly input: Uint8Array
}

/** A guest was called, and its output was answered. */
export interface GuestResult {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /** What the guest produced, before the contract made an answer of it. It may still be on its way: only to be read. */
  readonly output: Uint8Array
  /** Time of the call, waiting for its turn included; not that of `onCall`. */
  readonly ms: number
}

/** There was no answer: a hook refused the call, the guest or its engine failed, or the output was none. */
export interface FailedCall {
  readonly route: ServedRoute
  readonly request: FastifyRequest
  /** Told apart by `code`: `WASM_SERVE_GUEST_ERROR` if the guest said no, in its own words. */
  readonly error: Error
  /** Time of the call, waiting for its turn included; 0 if it was not made. */
  readonly ms: number
}
