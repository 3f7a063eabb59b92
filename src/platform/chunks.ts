/** Bytes in several pieces, as they arrived: they are copied to where they are needed without being joined first. */
export class ChunkedBytes {
  readonly list: readonly Uint8Array[]
  /** Total length in bytes. */
  readonly length: number
  readonly #detach: ((memory: ArrayBuffer) => void) | undefined

  /** @param detach - Frees the memory of a piece. Default: none, as others may read the pieces. */
  constructor(list: readonly Uint8Array[], detach?: (memory: ArrayBuffer) => void) {
    this.list = list
    this.length = list.reduce((bytes, { length }) => bytes + length, 0)
    this.#detach = detach
  }

  /**
   * Frees the pieces, which nobody reads from now on. V8 frees such memory when it collects old objects: that takes 10 us more
   * for each 64 KiB. Does nothing for pieces that share their memory with others.
   */
  free(): void {
    if (!this.#detach) return
    for (const { buffer, byteLength } of this.list) {
      if (byteLength > 0 && byteLength === buffer.byteLength && buffer instanceof ArrayBuffer)
        this.#detach(buffer)
    }
  }
}

/** Bytes that are only measured and copied. */
export type ByteSource = Uint8Array | ChunkedBytes

/** @param at - An offset in the target, which must have room for all bytes. */
export function copyBytes(bytes: ByteSource, target: Uint8Array, at = 0): void {
  if (!(bytes instanceof ChunkedBytes)) {
    target.set(bytes, at)
    return
  }
  let next = at
  for (const piece of bytes.list) {
    target.set(piece, next)
    next += piece.length
  }
}

/** Bytes in one piece: a copy, if they were in several. */
export function joinBytes(bytes: ByteSource): Uint8Array {
  if (!(bytes instanceof ChunkedBytes)) return bytes
  const joined = Buffer.allocUnsafe(bytes.length)
  copyBytes(bytes, joined)
  return joined
}

/**
 * Collects pieces in the order in which they arrive, and joins small ones: a piece takes some hundred bytes besides its
 * own, and the sender chooses how many there are.
 */
export class ChunkList {
  readonly list: Uint8Array[] = []
  /** Memory of the last piece that was joined. */
  #joined: Uint8Array | undefined

  add(piece: Uint8Array): void {
    const last = this.list.at(-1)
    if (last && last.length + piece.length <= JOINED_BYTES)
      this.list[this.list.length - 1] = this.#join(last, piece)
    else this.list.push(piece)
  }

  /** All bytes, in a buffer of their own. */
  join(): Uint8Array<ArrayBuffer> {
    const pieces = new ChunkedBytes(this.list)
    const joined = new Uint8Array(pieces.length)
    copyBytes(pieces, joined)
    return joined
  }

  /** Adds to the last piece: where it is, if there is room behind it. */
  #join(last: Uint8Array, piece: Uint8Array): Uint8Array {
    const end = last.byteOffset + last.length
    if (last.buffer === this.#joined?.buffer && end + piece.length <= JOINED_BYTES) {
      this.#joined.set(piece, end)
      return this.#joined.subarray(last.byteOffset, end + piece.length)
    }
    this.#joined = new Uint8Array(JOINED_BYTES)
    this.#joined.set(last)
    this.#joined.set(piece, last.length)
    return this.#joined.subarray(0, last.length + piece.length)
  }
}

/** Maximum bytes of pieces that are joined. */
const JOINED_BYTES = 16_384
