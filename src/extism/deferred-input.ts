import { DEFERRED_INPUT_WASM } from './deferred-input-wasm.ts'

/**
 * The input of a call while its bytes are outside of its block. It is copied when the guest or a host function reaches for
 * it. If nothing changes it, and the output names all of it, then its buffer is the output's, as in the SDK.
 */
export class DeferredInput {
  /** Replacements for the kernel's exports of the same names. */
  readonly exports: WebAssembly.Exports
  readonly #defer: CallableFunction
  readonly #reset: CallableFunction
  readonly #memory: WebAssembly.Memory
  /** Undefined if there is none, or if the block is the only copy that counts. */
  #input: Uint8Array<ArrayBuffer> | undefined
  #length = 0
  #filled = 0

  /** @param kernel - An instance of `kernel.wasm`. */
  constructor(kernel: WebAssembly.Instance) {
    const { memory } = kernel.exports
    if (!(memory instanceof WebAssembly.Memory)) throw new Error('the kernel has no memory')
    deferredModule ??= new WebAssembly.Module(DEFERRED_INPUT_WASM)
    const { exports } = new WebAssembly.Instance(deferredModule, {
      kernel: kernel.exports,
      host: { fill: (end: number) => this.#fill(end), fill_all: () => this.settle() },
    })
    const { defer, reset } = exports
    if (typeof defer !== 'function' || typeof reset !== 'function')
      throw new Error('deferred-input.wasm lacks a function')
    this.exports = exports
    this.#defer = defer
    this.#reset = reset
    this.#memory = memory
  }

  /** @param input - Its block is the kernel's first one, and empty. */
  begin(input: Uint8Array<ArrayBuffer>): void {
    this.#input = input
    this.#length = input.length
    this.#filled = 0
    this.#defer(this.#length, this.#length)
  }

  /** Copies what is not in the block yet, before bytes at an offset are read. @throws TypeError if the input was detached. */
  fill(at: number): void {
    if (this.#input && at < FIRST_BLOCK + this.#length) this.#fill(this.#length)
  }

  /**
   * Copies what is not in the block yet, and releases the input, before bytes at an offset are changed.
   *
   * @throws TypeError if the input was detached.
   */
  settle(at = FIRST_BLOCK): void {
    if (!this.#input || at >= FIRST_BLOCK + this.#length) return
    this.#fill(this.#length)
    this.#input = undefined
    this.#defer(0, 0)
  }

  /** @returns the buffer of the input if these bytes of the blocks are all of it, unchanged; undefined otherwise. */
  bufferOf(at: number, length: number): ArrayBuffer | undefined {
    const isInput = at === FIRST_BLOCK && length === this.#length && length === this.#input?.length
    return isInput ? this.#input?.buffer : undefined
  }

  /** A host function may have written into the buffer of the input. */
  renew(): void {
    this.#copy(0, this.#filled)
  }

  reset(): void {
    this.#input = undefined
    this.#reset()
  }

  /** Copies ahead: a guest that reads all of a large input comes here a few times only. */
  #fill(end: number): void {
    const from = this.#filled
    if (from === this.#length) return
    const to = Math.min(this.#length, Math.max(end, 2 * from, MIN_FILL_BYTES))
    this.#copy(from, to)
    this.#filled = to
    this.#defer(this.#length - to, this.#length)
  }

  #copy(from: number, to: number): void {
    // `subarray` throws if the input was detached.
    if (this.#input)
      new Uint8Array(this.#memory.buffer, FIRST_BLOCK).set(this.#input.subarray(from, to), from)
  }
}

/** The offset of the first block that the kernel makes in a call. */
const FIRST_BLOCK = 1_024

const MIN_FILL_BYTES = 4_096

let deferredModule: WebAssembly.Module | undefined
