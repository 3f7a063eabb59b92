/**
 * Most bytes of a memory that is kept. A new one costs more, also if the guest touches little of it; and what is kept is
 * there while nobody calls.
 */
export const MOST_KEPT = 33_554_432

/** To wipe so many bytes costs about as much as a new memory of that size, with the garbage collection that it brings. */
const MOST_EXCESS = 1_073_741_824

/**
 * Whether a memory is worth keeping. None can shrink: without an end one large call would make all later ones wipe as
 * much.
 */
export class MemoryWorth {
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
