/** One thing that a ring carries. */
export interface RingRecord {
  /** 1 or more. */
  readonly kind: number
  /** Which call it belongs to. */
  readonly call: number
  readonly detail: number
  readonly ms: number
  /** The ring's own memory: good until it is released. */
  readonly payload: Uint8Array
}

/**
 * Carries records from one thread to another through memory that both see: one writes, one reads, nobody waits. What
 * was written can be read after the writer was killed; a record that it was killed in the middle of never was there.
 */
export class Ring {
  readonly #positions: Int32Array
  readonly #view: DataView
  readonly #bytes: Uint8Array
  readonly #capacity: number

  constructor(buffer: SharedArrayBuffer) {
    this.#positions = new Int32Array(buffer, 0, 2)
    this.#view = new DataView(buffer, POSITIONS_BYTES)
    this.#bytes = new Uint8Array(buffer, POSITIONS_BYTES)
    this.#capacity = this.#bytes.length
  }

  /** @param capacity - In bytes, a power of two. */
  static allocate(capacity: number): SharedArrayBuffer {
    return new SharedArrayBuffer(POSITIONS_BYTES + capacity)
  }

  /** Whether there is nothing to read. */
  get isEmpty(): boolean {
    return Atomics.load(this.#positions, READ) === Atomics.load(this.#positions, WRITTEN)
  }

  /** @returns false if there is no room for it now. */
  write(kind: number, call: number, detail: number, ms: number, payload: Uint8Array): boolean {
    const size = sizeOf(payload.length)
    const written = Atomics.load(this.#positions, WRITTEN)
    const start = this.#offset(written)
    const untilEnd = this.#capacity - start
    const skipped = size > untilEnd ? untilEnd : 0 // a record lies in one piece
    if (this.#used(written) + skipped + size > this.#capacity) return false

    if (skipped > 0) this.#view.setUint32(start + KIND, SKIP, true)
    const at = skipped > 0 ? 0 : start
    this.#view.setUint32(at, payload.length, true)
    this.#view.setUint32(at + KIND, kind, true)
    this.#view.setUint32(at + CALL, call, true)
    this.#view.setInt32(at + DETAIL, detail, true)
    this.#view.setFloat64(at + MS, ms, true)
    this.#bytes.set(payload, at + HEADER)
    Atomics.store(this.#positions, WRITTEN, (written + skipped + size) | 0)
    return true
  }

  /** Whether payloads of so many bytes can be written, one after the other. */
  hasRoom(first: number, second: number): boolean {
    const [one, other] = [sizeOf(first), sizeOf(second)]
    // The most that may have to be skipped is less than the larger of them.
    const most = one + other + Math.max(one, other)
    return this.#used(Atomics.load(this.#positions, WRITTEN)) + most <= this.#capacity
  }

  /** The oldest record, which stays until it is released. */
  peek(): RingRecord | undefined {
    if (this.isEmpty) return undefined
    const at = this.#offset(Atomics.load(this.#positions, READ))
    const kind = this.#view.getUint32(at + KIND, true)
    if (kind === SKIP) {
      this.#advance(this.#capacity - at)
      return this.peek()
    }
    return {
      kind,
      call: this.#view.getUint32(at + CALL, true),
      detail: this.#view.getInt32(at + DETAIL, true),
      ms: this.#view.getFloat64(at + MS, true),
      payload: this.#bytes.subarray(at + HEADER, at + HEADER + this.#view.getUint32(at, true)),
    }
  }

  /** Gives the place of a record back to the writer. */
  release({ payload }: RingRecord): void {
    this.#advance(sizeOf(payload.length))
  }

  #used(written: number): number {
    return (written - Atomics.load(this.#positions, READ)) | 0
  }

  #advance(bytes: number): void {
    Atomics.store(this.#positions, READ, (Atomics.load(this.#positions, READ) + bytes) | 0)
  }

  /** Positions count on without end, and wrap around as 32 bits do. */
  #offset(position: number): number {
    return position & (this.#capacity - 1)
  }
}

const POSITIONS_BYTES = 16
const READ = 0
const WRITTEN = 1

/** Of a record: the length of its payload, and these. */
const KIND = 4
const CALL = 8
const DETAIL = 12
const MS = 16
const HEADER = 24

/** The kind of what fills the end of the buffer. Its 8 bytes fit there: all sizes are multiples of 8. */
const SKIP = 0

function sizeOf(length: number): number {
  return (HEADER + length + 7) & ~7
}
