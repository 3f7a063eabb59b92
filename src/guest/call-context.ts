import type { GuestLogLevel } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'

/**
 * The interface of a host function to its call. It is the same as in `@extism/extism`, except that
 *
 * - it is valid for one call: afterwards, everything except `hostContext` throws. A timer that outlives its call cannot touch
 *   the next one's data.
 * - an offset must be the start of a block, as everywhere in the kernel. 0 is a block of no bytes.
 * - `read` returns a copy; see {@link Block}.
 */
export interface CallContext {
  /**
   * The caller: on a route the Fastify request. null while the guest starts, and after the call.
   *
   * The value is not checked: the caller guarantees its type.
   */
  hostContext<T = Caller>(): T | null

  /** Creates an uninitialized block: `read` it to fill it. @returns 0 for no bytes, or if there is no space. */
  alloc(size: bigint | number): bigint

  /** Creates a block with these bytes. @returns 0 for no bytes. @throws Error if there is no space. */
  store(input: string | Uint8Array): bigint

  /** @returns null if no block starts there. */
  read(at: bigint | number): Block | null

  /** Length of the block that starts there; 0 if there is none. */
  length(at: bigint | number): bigint

  /**
   * Sets the error of the call, which is its result. It takes precedence over any output, and over an exception of the host
   * function. The guest continues unless something is thrown.
   *
   * @param error - undefined clears an error that was set before. (The SDK throws.)
   */
  setError(error?: string | Error | null): void

  /** @returns null if there is none. */
  getVariable(name: string): Block | null

  /** @throws Error if there is no room; the old value stays. */
  setVariable(name: string, value: string | Uint8Array): void

  deleteVariable(name: string): void

  /** Always `trace`: the logger filters the lines. Assignments are ignored. */
  logLevel: GuestLogLevel | 'silent'
}

/** A context with access to blocks without copies, for wasm-serve's own host functions. (`kernel`) */
export interface BlockContext extends CallContext {
  /** The caller itself, where `hostContext` is what several have in common. undefined while the guest starts, and after the call. */
  readonly caller: Caller | undefined

  /**
   * A view of a block, valid until a block is created or the guest continues.
   *
   * @throws Error if no block starts there. 0 means no bytes.
   */
  view(at: bigint): Uint8Array

  /** Maximum bytes of the blocks of a call. */
  readonly blockLimit: number

  /** Releases a block; an offset without one has no effect. */
  free(at: bigint): void

  /**
   * Makes these bytes the input of the call. Those of the last call of this function are released, unless the guest has
   * released them.
   *
   * @returns the offset of their block; 0 for no bytes.
   * @throws Error if there is no space.
   */
  replaceInput(bytes: Uint8Array): bigint
}

/** @throws Error if the route has no kernel. */
export function blocksOf(context: CallContext): BlockContext {
  if (isBlockContext(context)) return context
  throw new Error('this function needs the kernel runtime')
}

function isBlockContext(context: CallContext): context is BlockContext {
  return 'replaceInput' in context
}

/**
 * Bytes that a host function reads. It has the reading methods of `DataView`, and no writing ones.
 *
 * A copy: later writes of the guest do not change it. Bytes that are written into `bytes()` or `arrayBuffer()` are copied
 * to the guest's block when the host function returns.
 */
export interface Block extends Omit<DataView<ArrayBuffer>, `set${string}` | typeof Symbol.toStringTag> {
  /** Decodes it as UTF-8; invalid bytes become U+FFFD. */
  text(): string
  /** Same as `text`. */
  string(): string
  /** @throws SyntaxError if it is not JSON. */
  json(): unknown
  /** Always the same array. */
  bytes(): Uint8Array<ArrayBuffer>
  arrayBuffer(): ArrayBuffer
}

/** @param bytes - Fill their buffer. The block takes ownership of them. */
export class BlockCopy extends DataView<ArrayBuffer> implements Block {
  readonly #bytes: Uint8Array<ArrayBuffer>
  #isShared = false

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    super(bytes.buffer)
    this.#bytes = bytes
  }

  /** The bytes, if `bytes()` or `arrayBuffer()` has returned them; undefined otherwise. */
  get writable(): Uint8Array | undefined {
    return this.#isShared ? this.#bytes : undefined
  }

  text(): string {
    return utf8.decode(this.#bytes)
  }

  string(): string {
    return this.text()
  }

  json(): unknown {
    return JSON.parse(this.text())
  }

  bytes(): Uint8Array<ArrayBuffer> {
    this.#isShared = true
    return this.#bytes
  }

  arrayBuffer(): ArrayBuffer {
    return this.bytes().buffer
  }
}

const utf8 = new TextDecoder()

for (const name of Object.getOwnPropertyNames(DataView.prototype)) {
  if (name.startsWith('set')) Object.defineProperty(BlockCopy.prototype, name, { value: throwReadOnly })
}

function throwReadOnly(): never {
  throw new TypeError('a block that was read is read-only: use store to create a new block')
}
