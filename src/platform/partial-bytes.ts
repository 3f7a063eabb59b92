/**
 * The part of a body or message that has arrived, while the rest has not. It is an entry of a list: a `Set` would keep what has
 * left it until a major garbage collection.
 */
export class Part {
  bytes = 0
  isOpen = true
  older: Part | undefined
  newer: Part | undefined
  readonly refuse: () => void

  constructor(refuse: () => void) {
    this.refuse = refuse
  }
}

/** Default maximum: 256 MiB, or this many bodies of the largest size. */
const MAX_BYTES = 2 ** 28
const MAX_LARGEST = 16

/**
 * Limits the memory of all bodies and messages that have arrived in part. Beyond the limit the oldest part is refused:
 * clients that send slowly cannot keep others from sending.
 */
export class PartialBytes {
  #oldest: Part | undefined
  #newest: Part | undefined
  #bytes = 0
  #configured: number | undefined
  #largest = 0

  get bytes(): number {
    return this.#bytes
  }

  get max(): number {
    return this.#configured ?? Math.max(MAX_BYTES, MAX_LARGEST * this.#largest)
  }

  /** Sets the maximum, in bytes. */
  limit(max: number): void {
    this.#configured = max
  }

  /** Makes room for bodies of this size, unless a maximum is set. */
  expect(bodyLimit: number): void {
    this.#largest = Math.max(this.#largest, bodyLimit)
  }

  /** @param refuse - Called at most once, while the part is open: its bytes have to be dropped. */
  open(refuse: () => void): Part {
    const part = new Part(refuse)
    part.older = this.#newest
    if (this.#newest) this.#newest.newer = part
    else this.#oldest = part
    this.#newest = part
    return part
  }

  /** @param bytes - All bytes of the part, with the memory that they take besides. */
  resize(part: Part, bytes: number): void {
    if (!part.isOpen) return
    this.#bytes += bytes - part.bytes
    part.bytes = bytes
    while (this.#oldest && this.#bytes > this.max) {
      const { refuse } = this.#oldest
      this.close(this.#oldest)
      refuse()
    }
  }

  /** The rest has arrived, or nobody waits for it. Has no effect the second time. */
  close(part: Part): void {
    if (!part.isOpen) return
    const { older, newer } = part
    if (older) older.newer = newer
    else this.#oldest = newer
    if (newer) newer.older = older
    else this.#newest = older
    part.isOpen = false
    part.older = part.newer = undefined
    this.#bytes -= part.bytes
  }
}

/** Partial bytes of all servers: a process has one memory. */
export const processPartials = new PartialBytes()
