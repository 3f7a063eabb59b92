import { readFileSync } from 'node:fs'

/**
 * The input of a call while its bytes are outside of its block. It is copied when the guest or a host function reaches for
 * it. If nothing changes it, and the output names all of it, then its buffer is the output's, as in the SDK.
 */
export class DeferredInput {
  /** Imported by the guest in place of the kernel's functions with these names. */
  readonly functions: Readonly<Record<string, WebAssembly.ExportValue>>
  /** Wipes the blocks, as the kernel's `reset` does. */
  readonly #reset: CallableFunction
  readonly #memory: WebAssembly.Memory
  #words: BigInt64Array
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
    const { reset, ...functions } = exports
    if (typeof reset !== 'function') throw new Error('deferred-input.wasm has no function reset')
    this.functions = functions
    this.#reset = reset
    this.#memory = memory
    this.#words = new BigInt64Array(memory.buffer, WORDS_AT, WORDS.count)
  }

  /** @param input - Its block is the kernel's first one, and empty. It must stay as it is during the call. */
  begin(input: Uint8Array<ArrayBuffer>): void {
    this.#input = input
    this.#filled = 0
    this.#isChanged = false
    this.#write(input.length)
    this.#words[WORDS.watched] = BigInt(input.length)
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
    this.#view()[WORDS.watched] = 0n
  }

  /** @returns the buffer of the input if these bytes of the blocks are all of it, unchanged; undefined otherwise. */
  bufferOf(at: number, length: number): ArrayBuffer | undefined {
    const isInput = at === FIRST_BLOCK && length === this.#input?.length
    return isInput && !this.#isChanged ? this.#input?.buffer : undefined
  }

  /** A host function may have written into the buffer of the input: what was copied is copied again when it is read. */
  renew(): void {
    this.#filled = 0
    this.#write(this.#input?.length ?? 0)
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
    this.#write(input.length - this.#filled)
  }

  #write(rest: number): void {
    const words = this.#view()
    words[WORDS.filled] = BigInt(rest && this.#filled)
    words[WORDS.rest] = BigInt(rest)
    words[WORDS.rest8] = BigInt(rest && rest + 7)
  }

  /** Growth of the memory detaches the view. */
  #view(): BigInt64Array {
    if (this.#words.length === 0) this.#words = new BigInt64Array(this.#memory.buffer, WORDS_AT, WORDS.count)
    return this.#words
  }
}

/** The offset of the first block that the kernel makes in a call. */
const FIRST_BLOCK = 1_024

const MIN_FILL_BYTES = 4_096

/** Where `deferred-input.wat` has its state, and the words of it. */
const WORDS_AT = 960
const WORDS = { filled: 0, rest: 1, rest8: 2, watched: 3, count: 4 }

let deferredModule: WebAssembly.Module | undefined
