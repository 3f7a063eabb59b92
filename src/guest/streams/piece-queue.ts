import { countReadBytes } from '../../platform/node-workarounds.ts'
import { PIECE_BYTES, READ_BYTES } from './operations.ts'

/** Bytes that have arrived, in the order in which a guest takes them. */
export class PieceQueue {
  readonly #pieces: Buffer[] = []
  /** Memory of the last piece that was joined. */
  #joined: Buffer | undefined
  #spare: Uint8Array<ArrayBuffer> | undefined
  #bytes = 0

  /** The number of bytes that wait. */
  get bytes(): number {
    return this.#bytes
  }

  /** Joins small pieces: each of its own would take some hundred bytes, and the first of very many is removed slowly. */
  add(piece: Buffer): void {
    countReadBytes(piece.length)
    this.#bytes += piece.length
    const last = this.#pieces.at(-1)
    if (last && last.length + piece.length <= JOINED_BYTES)
      this.#pieces[this.#pieces.length - 1] = this.#join(last, piece)
    else this.#pieces.push(piece)
  }

  /** The next bytes: a copy, which has its buffer for itself. @param max - Maximum bytes. @returns undefined if none wait. */
  take(max: number): Uint8Array<ArrayBuffer> | undefined {
    if (this.#bytes === 0) return undefined
    const size = Math.min(max, this.#bytes, READ_BYTES)
    const taken = this.#allocate(size)
    for (let at = 0; at < size; ) at += this.#moveTo(taken, at)
    this.#bytes -= size
    return taken
  }

  /** Keeps the memory of a piece that was sent. */
  reuse({ buffer }: Uint8Array): void {
    if (buffer.byteLength === PIECE_BYTES && buffer instanceof ArrayBuffer)
      this.#spare = new Uint8Array(buffer)
  }

  clear(): void {
    this.#pieces.length = 0
    this.#bytes = 0
  }

  /** Adds to the last piece: where it is, if there is room behind it. */
  #join(last: Buffer, piece: Buffer): Buffer {
    const end = last.byteOffset + last.length
    if (last.buffer === this.#joined?.buffer && end + piece.length <= JOINED_BYTES) {
      this.#joined.set(piece, end)
      return this.#joined.subarray(last.byteOffset, end + piece.length)
    }
    this.#joined = Buffer.allocUnsafeSlow(JOINED_BYTES) // not from a pool: its offsets begin at 0
    this.#joined.set(last)
    this.#joined.set(piece, last.length)
    return this.#joined.subarray(0, last.length + piece.length)
  }

  /** Memory for the next piece: it changes its owner with its whole buffer, so it needs one of its own. */
  #allocate(size: number): Uint8Array<ArrayBuffer> {
    if (size < PIECE_BYTES / 4) return new Uint8Array(size)
    const whole = this.#spare ?? new Uint8Array(PIECE_BYTES)
    this.#spare = undefined
    return whole.subarray(0, size)
  }

  #moveTo(target: Uint8Array, at: number): number {
    const piece = this.#pieces[0] ?? NO_BYTES
    const moved = piece.subarray(0, target.length - at)
    target.set(moved, at)
    if (moved.length === piece.length) this.#pieces.shift()
    else this.#pieces[0] = piece.subarray(moved.length)
    return moved.length
  }
}

/** Maximum bytes of pieces that are joined. */
const JOINED_BYTES = 16_384

const NO_BYTES = Buffer.alloc(0)
