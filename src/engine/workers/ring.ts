import { type ByteSource, copyBytes } from '../../platform/chunks.ts'

/** A record of a ring. */
export interface RingRecord {
  /** 1 or more. */
  readonly kind: number
  /** The number of its call. */
  readonly call: number
  readonly detail: number
  readonly ms: number
  /** A view of the ring's memory, valid until it is released. */
  readonly payload: Uint8Array
}

/**
 * Carries records between two threads through shared memory: a single writer, a single reader, no waiting. Complete
 * records are readable even after the writer was killed; an incomplete one is not visible.
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

  /** Whether there are no records to read. */
  get isEmpty(): boolean {
    return Atomics.load(this.#positions, READ_POSITION) === Atomics.load(this.#positions, WRITE_POSITION)
  }

  /** @returns false if there is no space now. */
  write(kind: number, call: number, detail: number, ms: number, payload: ByteSource): boolean {
    const size = recordBytes(payload.length)
    const written = Atomics.load(this.#positions, WRITE_POSITION)
    const start = this.#offset(written)
    const untilEnd = this.#capacity - start
    const skipped = size > untilEnd ? untilEnd : 0 // a record is contiguous
    if (this.#used(written) + skipped + size > this.#capacity) return false

    if (skipped > 0) this.#view.setUint32(start + KIND_OFFSET, PADDING_KIND, true)
    const at = skipped > 0 ? 0 : start
    this.#view.setUint32(at, payload.length, true)
    this.#view.setUint32(at + KIND_OFFSET, kind, true)
    this.#view.setUint32(at + CALL_OFFSET, call, true)
    this.#view.setInt32(at + DETAIL_OFFSET, detail, true)
    this.#view.setFloat64(at + MS_OFFSET, ms, true)
    copyBytes(payload, this.#bytes, at + RECORD_HEADER_BYTES)
    Atomics.store(this.#positions, WRITE_POSITION, (written + skipped + size) | 0)
    return true
  }

  /** Whether payloads of these sizes can be written in sequence. */
  hasRoom(first: number, second: number): boolean {
    const [one, other] = [recordBytes(first), recordBytes(second)]
    // The maximum that may have to be skipped is less than the largest of them.
    const most = one + other + Math.max(one, other)
    return this.#used(Atomics.load(this.#positions, WRITE_POSITION)) + most <= this.#capacity
  }

  /** The oldest record. It stays until it is released. */
  peek(): RingRecord | undefined {
    if (this.isEmpty) return undefined
    const at = this.#offset(Atomics.load(this.#positions, READ_POSITION))
    const kind = this.#view.getUint32(at + KIND_OFFSET, true)
    if (kind === PADDING_KIND) {
      this.#advance(this.#capacity - at)
      return this.peek()
    }
    return {
      kind,
      call: this.#view.getUint32(at + CALL_OFFSET, true),
      detail: this.#view.getInt32(at + DETAIL_OFFSET, true),
      ms: this.#view.getFloat64(at + MS_OFFSET, true),
      payload: this.#bytes.subarray(
        at + RECORD_HEADER_BYTES,
        at + RECORD_HEADER_BYTES + this.#view.getUint32(at, true),
      ),
    }
  }

  /** Returns the space of a record to the writer. */
  release({ payload }: RingRecord): void {
    this.#advance(recordBytes(payload.length))
  }

  #used(written: number): number {
    return (written - Atomics.load(this.#positions, READ_POSITION)) | 0
  }

  #advance(bytes: number): void {
    Atomics.store(this.#positions, READ_POSITION, (Atomics.load(this.#positions, READ_POSITION) + bytes) | 0)
  }

  /** Positions grow without end and wrap around at 32 bits. */
  #offset(position: number): number {
    return position & (this.#capacity - 1)
  }
}

const POSITIONS_BYTES = 16
const READ_POSITION = 0
const WRITE_POSITION = 1

/** The header of a record: the length of its payload, and these fields. */
const KIND_OFFSET = 4
const CALL_OFFSET = 8
const DETAIL_OFFSET = 12
const MS_OFFSET = 16
const RECORD_HEADER_BYTES = 24

/** The kind of the padding at the end of the buffer. Its 8 bytes always fit: all sizes are multiples of 8. */
const PADDING_KIND = 0

function recordBytes(length: number): number {
  return (RECORD_HEADER_BYTES + length + 7) & ~7
}
