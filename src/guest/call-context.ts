import type { GuestLogLevel } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { Block } from './block-copy.ts'

/**
 * What a host function reaches of the call that it is part of; the same as in `@extism/extism`, except that
 *
 * - it is for one call: when that is over, all but `hostContext` throws. A timer that outlives its call cannot touch
 *   the next one's data.
 * - an offset is the beginning of a block, as everywhere in the kernel, and no other place in it. 0 is none.
 * - what `read` returns is a copy; see {@link Block}.
 */
export interface CallContext {
  /**
   * Who made the call: on a route the Fastify request. None while the guest starts, and after the call.
   *
   * What it returns is not checked: it is the caller's word that a request is a request.
   */
  hostContext<T = Caller>(): T | null

  /** Makes a block without content: `read` it to fill it. @returns 0 for no bytes, or if there is no room. */
  alloc(size: bigint | number): bigint

  /** Makes a block with these bytes. @returns 0 for no bytes. @throws Error if there is no room. */
  store(input: string | Uint8Array): bigint

  /** @returns null if no block begins there. */
  read(at: bigint | number): Block | null

  /** Length of the block that begins there; 0 if none does. */
  length(at: bigint | number): bigint

  /**
   * Makes this the error of the call, which is its answer: it wins over any output, and over what the host function
   * throws then. The guest goes on, unless something is thrown.
   *
   * @param error - Without it, an error that was set before is taken back. (The SDK throws.)
   */
  setError(error?: string | Error | null): void

  /** @returns null if there is none. */
  getVariable(name: string): Block | null

  /** @throws Error if there is no room: what was there stays. */
  setVariable(name: string, value: string | Uint8Array): void

  deleteVariable(name: string): void

  /** Always `trace`, for what is kept is the logger's choice; what is set is ignored. */
  logLevel: GuestLogLevel | 'silent'
}
