import { readFileSync } from 'node:fs'

/**
 * The input of a call while its bytes are outside of its block. It is copied when the guest or a host function reaches for
 * it. If nothing changes it, and the output names all of it, then its buffer is the output's, as in the SDK.
 */
export class DeferredInput {
  /** They stand in for those of the kernel with the same names. */
  readonly exports: WebAssembly.Exports
  readonly #defer: CallableFunction
  readonly #reset: CallableFunction
  readonly #memory: WebAssembly.Memory
  #input: Uint8Array<ArrayBuffer> | undefined
  #filled = 0
  #isChanged = false

  /** @param kernel - An instance of `kernel.wasm`. */
  constructor(kernel: WebAssembly.Instance) {
    const { memory } = kernel.exports
    if (!(memory instanceof WebAssembly.Memory)) throw new Error('the kernel has no memory')
    deferredModule ??= new WebAssembly.Module(readFileSync(new URL('./deferred-input.wasm', import.meta.url)))
    const { exports } = new WebAssembly.Instance(deferredModule, {
      kernel: kernel.exports,
      host: { fill: (end: number) => this.#fill(end), fill_all: () => this.change() },
    })
    const { defer, reset } = exports
    if (typeof defer !== 'function' || typeof reset !== 'function')
      throw new Error('deferred-input.wasm lacks a function')
    this.exports = exports
    this.#defer = defer
    this.#reset = reset
    this.#memory = memory
  }

  /** @param input - Its block is the kernel's first one, and empty. It must stay as it is during the call. */
  begin(input: Uint8Array<ArrayBuffer>): void {
    this.#input = input
    this.#filled = 0
    this.#isChanged = false
    this.#defer(input.length, input.length)
  }

  /** Copies what is not in the block yet, before bytes at an offset are read. */
  fill(at = FIRST_BLOCK): void {
    const length = this.#input?.length ?? 0
    if (at < FIRST_BLOCK + length && this.#filled < length) this.#fill(length)
  }

  /** Copies what is not in the block yet, before bytes at an offset are changed. */
  change(at = FIRST_BLOCK): void {
    if (this.#isChanged || !this.#input || at >= FIRST_BLOCK + this.#input.length) return
    this.fill()
    this.#isChanged = true
    this.#defer(0, 0)
  }

  /** @returns the buffer of the input if these bytes of the blocks are all of it, unchanged; undefined otherwise. */
  bufferOf(at: number, length: number): ArrayBuffer | undefined {
    const isInput = at === FIRST_BLOCK && length === this.#input?.length
    return isInput && !this.#isChanged ? this.#input?.buffer : undefined
  }

  /** A host function may have written into the buffer of the input: what was copied is copied again when it is read. */
  renew(): void {
    this.#filled = 0
    const length = this.#input?.length ?? 0
    this.#defer(length, length)
  }

  reset(): void {
    this.#input = undefined
    this.#reset()
  }

  /** Copies ahead: a guest that reads all of a large input comes here a few times only. */
  #fill(end: number): void {
    const input = this.#input
    if (!input) return
    const from = this.#filled
    this.#filled = Math.min(input.length, Math.max(end, 2 * from, MIN_FILL_BYTES))
    new Uint8Array(this.#memory.buffer, FIRST_BLOCK).set(input.subarray(from, this.#filled), from)
    this.#defer(input.length - this.#filled, input.length)
  }
}

/** The offset of the first block that the kernel makes in a call. */
const FIRST_BLOCK = 1_024

const MIN_FILL_BYTES = 4_096

let deferredModule: WebAssembly.Module | undefined
