/** The part of a body or message that has arrived, while the rest has not. */
export interface Part {
  readonly bytes: number
}

interface OpenPart extends Part {
  bytes: number
  refuse: () => void
}

/** Default maximum: 256 MiB, or this many bodies of the largest size. */
const MAX_BYTES = 2 ** 28
const MAX_LARGEST = 16

/**
 * Limits the memory of all bodies and messages that have arrived in part. Beyond the limit the oldest part is refused:
 * clients that send slowly cannot keep others from sending.
 */
export class PartialBytes {
  /** The oldest first. */
  readonly #parts = new Set<OpenPart>()
  #bytes = 0
  #given: number | undefined
  #largest = 0

  get bytes(): number {
    return this.#bytes
  }

  get max(): number {
    return this.#given ?? Math.max(MAX_BYTES, MAX_LARGEST * this.#largest)
  }

  /** Sets the maximum, in bytes. */
  limit(max: number): void {
    this.#given = max
  }

  /** Makes room for bodies of this size, unless a maximum is set. */
  expect(bodyLimit: number): void {
    this.#largest = Math.max(this.#largest, bodyLimit)
  }

  /** @param refuse - Called at most once, while the part is open: its bytes have to be dropped. */
  open(refuse: () => void): Part {
    const part = { bytes: 0, refuse }
    this.#parts.add(part)
    return part
  }

  /** @param bytes - All bytes of the part, with the memory that they take besides. */
  resize(part: Part, bytes: number): void {
    if (!this.#has(part)) return
    this.#bytes += bytes - part.bytes
    part.bytes = bytes
    for (const oldest of this.#parts) {
      if (this.#bytes <= this.max) return
      const { refuse } = oldest
      this.close(oldest)
      refuse()
    }
  }

  /** The rest has arrived, or nobody waits for it. Has no effect the second time. */
  close(part: Part): void {
    if (!this.#has(part)) return
    this.#parts.delete(part)
    this.#bytes -= part.bytes
    part.refuse = ignore // the table of the set may keep the part for some time, but not its bytes
  }

  #has(part: Part): part is OpenPart {
    return (this.#parts as ReadonlySet<Part>).has(part)
  }
}

const ignore = (): void => undefined

/** Those of all servers: a process has one memory. */
export const processPartials = new PartialBytes()
