import { ChunkList } from '../../platform/chunks.ts'
import { countReadBytes } from '../../platform/node-workarounds.ts'
import { PIECE_BYTES, READ_BYTES } from './stream-protocol.ts'

/** Bytes that have arrived, in the order in which a guest takes them. */
export class ChunkQueue {
  readonly #pieces = new ChunkList()
  #spare: Uint8Array<ArrayBuffer> | undefined
  #bytes = 0

  /** The number of bytes that wait. */
  get bytes(): number {
    return this.#bytes
  }

  add(piece: Buffer): void {
    countReadBytes(piece.length, 'stream')
    this.#bytes += piece.length
    this.#pieces.add(piece)
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
    this.#pieces.list.length = 0
    this.#bytes = 0
  }

  /** Memory for the next piece: it changes its owner with its whole buffer, so it needs one of its own. */
  #allocate(size: number): Uint8Array<ArrayBuffer> {
    if (size < PIECE_BYTES / 4) return new Uint8Array(size)
    const whole = this.#spare ?? new Uint8Array(PIECE_BYTES)
    this.#spare = undefined
    return whole.subarray(0, size)
  }

  #moveTo(target: Uint8Array, at: number): number {
    const { list } = this.#pieces
    const piece = list[0] ?? NO_BYTES
    const moved = piece.subarray(0, target.length - at)
    target.set(moved, at)
    if (moved.length === piece.length) list.shift()
    else list[0] = piece.subarray(moved.length)
    return moved.length
  }
}

const NO_BYTES = Buffer.alloc(0)
