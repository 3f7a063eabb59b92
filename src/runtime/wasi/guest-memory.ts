import { isUtf8 } from 'node:buffer'
import { WasiError } from './errno.ts'

/** Longest path of a guest, in bytes, as on Linux. */
const MAX_PATH_BYTES = 4_096

/** Maximum buffers of one read or write, as on Linux. With more, the guest sees a short count. */
const MAX_SPANS = 1_024

const NO_BYTES = Buffer.alloc(0)

/** Called before a range of the guest's memory is read or written. */
export type OnAccess = (address: number, length: number) => void

/**
 * Bounds-checked access to the guest's memory. Every pointer and length is an untrusted 32-bit number: anything outside is
 * `EFAULT`. Before {@link attach} everything is outside.
 */
export class GuestMemory {
  readonly #onAccess: OnAccess | undefined
  #memory: WebAssembly.Memory | undefined
  #bytes: Buffer = NO_BYTES
  #view = new DataView(NO_BYTES.buffer, 0, 0)

  constructor(onAccess?: OnAccess | undefined) {
    this.#onAccess = onAccess
  }

  attach(memory: WebAssembly.Memory): void {
    this.#memory = memory
    this.#refresh()
  }

  /** The whole memory. Access only ranges that {@link locate} allowed, and get it again in each call: it may grow. */
  get bytes(): Buffer {
    return this.#bytes
  }

  /** A view of {@link bytes} for numbers (little-endian). */
  get view(): DataView {
    return this.#view
  }

  /**
   * Checks that `size` bytes at `pointer` are in the memory.
   *
   * @returns their unsigned start.
   */
  locate(pointer: number, size: number): number {
    const start = pointer >>> 0
    if (this.#bytes.length === 0 || start + size > this.#bytes.length) {
      this.#refresh() // growth detaches the old view; that of a shared memory stays short
      if (start + size > this.#bytes.length) throw new WasiError('EFAULT')
    }
    this.#onAccess?.(start, size)
    return start
  }

  /** A view of `length` bytes at `pointer`. */
  span(pointer: number, length: number): Buffer {
    const start = this.locate(pointer, length >>> 0)
    return this.#bytes.subarray(start, start + (length >>> 0))
  }

  setU32(pointer: number, value: number): void {
    const at = this.locate(pointer, 4)
    this.#view.setUint32(at, value, true)
  }

  setU64(pointer: number, value: bigint): void {
    const at = this.locate(pointer, 8)
    this.#view.setBigUint64(at, value, true)
  }

  /** Reads a path: UTF-8 without a NUL. */
  path(pointer: number, length: number): string {
    if (length >>> 0 > MAX_PATH_BYTES) throw new WasiError('ENAMETOOLONG')
    const span = this.span(pointer, length)
    if (!isUtf8(span) || span.includes(0)) throw new WasiError('EILSEQ')
    return span.toString()
  }

  /**
   * Moves the bytes of a list of buffers (iovecs) in order, until one is moved partly.
   *
   * Buffers may overlap and so add up to more bytes than exist: at most the size of the memory is moved.
   *
   * @param move - Moves bytes from `start` to `end` of `bytes`, and returns their number.
   * @returns the total number of moved bytes.
   */
  transfer(list: number, count: number, move: (bytes: Buffer, start: number, end: number) => number): number {
    const first = this.locate(list, (count >>> 0) * 8)
    const last = first + (count >>> 0) * 8
    let total = 0
    let spans = 0
    for (let at = first; at < last && spans < MAX_SPANS; at += 8) {
      const length = this.#view.getUint32(at + 4, true)
      if (length === 0) continue
      const start = this.locate(this.#view.getUint32(at, true), length)
      if (total + length > this.#bytes.length) break
      const moved = move(this.#bytes, start, start + length)
      total += moved
      spans++
      if (moved < length) break
    }
    return total
  }

  #refresh(): void {
    if (!this.#memory) return
    const { buffer } = this.#memory
    this.#bytes = Buffer.from(buffer)
    this.#view = new DataView(buffer)
  }
}
