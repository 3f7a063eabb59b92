import { Descriptor, FILETYPE, STREAM_INPUT, STREAM_OUTPUT } from './descriptor.ts'
import { WasiError } from './errno.ts'

/** Input that has ended before it began. */
export class EmptyInput extends Descriptor {
  override readonly filetype = FILETYPE.characterDevice
  override readonly rights = STREAM_INPUT

  override read(_bytes: Buffer, _start: number, _end: number, _position?: number): number {
    return 0
  }

  override seek(): number {
    throw new WasiError('ESPIPE')
  }

  override advise(): void {
    throw new WasiError('ESPIPE')
  }
}

/** Output that becomes lines. */
export class LineOutput extends Descriptor {
  override readonly filetype = FILETYPE.characterDevice
  override readonly rights = STREAM_OUTPUT
  readonly #lines: LineBuffer

  constructor(lines: LineBuffer) {
    super()
    this.#lines = lines
  }

  override write(bytes: Buffer, start: number, end: number): number {
    this.#lines.write(bytes.subarray(start, end))
    return end - start
  }

  override seek(): number {
    throw new WasiError('ESPIPE')
  }

  override advise(): void {
    throw new WasiError('ESPIPE')
  }

  override sync(): void {
    // An unfinished line stays: its end may be on its way.
  }
}

/** Longest unfinished line that is kept, in bytes; a longer one is written in pieces. */
const MAX_PENDING = 65_536

const NEWLINE = 10
const RETURN = 13

/** Makes lines of what a guest writes, and keeps the last one until it is complete. */
export class LineBuffer {
  readonly #writeLine: (line: string) => void
  #pending: Buffer = Buffer.alloc(0)
  #length = 0

  constructor(writeLine: (line: string) => void) {
    this.#writeLine = writeLine
  }

  write(bytes: Buffer): void {
    let start = 0
    while (start < bytes.length) {
      const newline = bytes.indexOf(NEWLINE, start)
      const end = newline === -1 ? bytes.length : newline
      if (newline === -1 || this.#length > 0) this.#keep(bytes.subarray(start, end))
      else this.#emit(bytes, start, end)
      if (newline !== -1) this.flush()
      start = end + 1
    }
  }

  /** Writes the unfinished line, if there is one. */
  flush(): void {
    if (this.#length > 0) this.#emitPending()
  }

  #keep(piece: Buffer): void {
    let start = 0
    while (start < piece.length) {
      if (this.#length === MAX_PENDING) this.#emitPending()
      const taken = Math.min(piece.length - start, MAX_PENDING - this.#length)
      this.#reserve(this.#length + taken)
      piece.copy(this.#pending, this.#length, start, start + taken)
      this.#length += taken
      start += taken
    }
  }

  #reserve(size: number): void {
    if (size <= this.#pending.length) return
    const larger = Buffer.alloc(Math.min(MAX_PENDING, Math.max(size, this.#pending.length * 2, 256)))
    this.#pending.copy(larger, 0, 0, this.#length)
    this.#pending = larger
  }

  #emitPending(): void {
    const length = this.#length
    this.#length = 0 // first: should the log throw, the next call must not see this line again
    this.#emit(this.#pending, 0, length)
  }

  #emit(bytes: Buffer, start: number, end: number): void {
    const hasReturn = end > start && bytes[end - 1] === RETURN
    this.#writeLine(bytes.toString('utf8', start, hasReturn ? end - 1 : end))
  }
}
