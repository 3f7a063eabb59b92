import type { RecyclableModule } from '../plugin/plugin.ts'

/** The memory of a module that imports it: used by one instance after the other. */
export class RecycledMemory {
  readonly memory: WebAssembly.Memory
  readonly #countsPages: boolean
  readonly #initial: number
  readonly #worth: Worth

  constructor({ memory, countsPages }: RecyclableModule) {
    this.memory = new WebAssembly.Memory(memory)
    this.#countsPages = countsPages
    this.#initial = memory.initial * PAGE
    this.#worth = new Worth(this.#initial)
  }

  /**
   * Wipes it, whatever its size: a module that counts its pages may have written behind the last.
   *
   * @returns false if the next instance has to have a new one.
   */
  renew(): boolean {
    const bytes = new Uint8Array(this.memory.buffer)
    if (bytes.length !== this.#initial && !this.#countsPages) return false
    if (!this.#worth.isKept(bytes.length)) return false
    bytes.fill(0)
    return true
  }
}

/**
 * Most bytes of a memory that is kept. A new one costs more, also if the guest touches little of it; and what is kept is
 * there while nobody calls.
 */
const MOST_KEPT = 33_554_432

/** To wipe so many bytes costs about as much as a new memory of that size, with the garbage collection that it brings. */
const MOST_EXCESS = 1_073_741_824

/**
 * Whether a memory is worth keeping. None can shrink: without an end one large call would make all later ones wipe as
 * much.
 */
export class Worth {
  readonly #initial: number
  #excess = 0

  constructor(initial: number) {
    this.#initial = initial
  }

  /** Asked once a call. @param bytes - Of the memory now. */
  isKept(bytes: number): boolean {
    this.#excess += bytes - this.#initial
    return bytes <= MOST_KEPT && this.#excess <= MOST_EXCESS
  }
}

/** Bytes of a page of WebAssembly memory. */
const PAGE = 65_536
