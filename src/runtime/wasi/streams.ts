import { Descriptor, FILETYPE, STREAM_INPUT, STREAM_OUTPUT } from './descriptor.ts'
import { WasiError } from './errno.ts'

const NO_BYTES = Buffer.alloc(0)

/** Empty input. */
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

/** Output that is split into lines. */
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
    // Keep an incomplete line: the rest may follow.
  }
}

/** Maximum size of an incomplete line in bytes; a longer one is written in pieces. */
const MAX_PENDING = 65_536

const NEWLINE = 10
const CARRIAGE_RETURN = 13

/** Splits the output of a guest into lines, and keeps the last one until it is complete. */
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

  /** Writes the incomplete line, if there is one. */
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
    this.#length = 0 // first: if the log throws, the next call must not see this line again
    this.#emit(this.#pending, 0, length)
  }

  #emit(bytes: Buffer, start: number, end: number): void {
    const hasReturn = end > start && bytes[end - 1] === CARRIAGE_RETURN
    this.#writeLine(bytes.toString('utf8', start, hasReturn ? end - 1 : end))
  }
}

/**
 * Standard input and output of a program that runs as one call: the call's input, and its output unless the program sets
 * another. All modules of a plug-in share them.
 */
export class ProgramStreams {
  readonly input: Descriptor
  readonly output: Descriptor
  readonly #input = new CallInput()
  readonly #output: KeptOutput

  /**
   * @param most - Maximum bytes of output that are kept.
   * @param writeLine - Receives the printed lines that were not taken with `takePrinted`.
   */
  constructor(most: number, writeLine: (line: string) => void) {
    this.#output = new KeptOutput(most, new LineBuffer(writeLine))
    this.input = this.#input
    this.output = this.#output
  }

  /** @param input - Read while the call runs; not copied. */
  begin(input: Uint8Array): void {
    this.#input.bytes = input
  }

  /** Number of printed bytes, which may exceed those that were kept. */
  get printedLength(): number {
    return this.#output.length
  }

  /** Returns the printed bytes and forgets them. */
  takePrinted(): Uint8Array {
    return this.#output.take()
  }

  end(): void {
    this.#input.bytes = NO_BYTES
    this.#output.flush()
  }
}

class CallInput extends EmptyInput {
  #bytes: Uint8Array = NO_BYTES
  #at = 0

  set bytes(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#at = 0
  }

  override get readable(): number {
    return this.#bytes.length - this.#at
  }

  override read(bytes: Buffer, start: number, end: number, position?: number): number {
    if (position !== undefined) throw new WasiError('ESPIPE')
    const piece = this.#bytes.subarray(this.#at, this.#at + end - start)
    bytes.set(piece, start)
    this.#at += piece.length
    return piece.length
  }
}

/** Output that is kept up to a limit, and counted beyond it. */
class KeptOutput extends LineOutput {
  length = 0
  readonly #most: number
  readonly #lines: LineBuffer
  #kept: Buffer = NO_BYTES
  #keptLength = 0

  constructor(most: number, lines: LineBuffer) {
    super(lines)
    this.#most = most
    this.#lines = lines
  }

  override write(bytes: Buffer, start: number, end: number): number {
    this.length += end - start
    const taken = Math.min(end - start, this.#most - this.#keptLength)
    this.#reserve(this.#keptLength + taken)
    bytes.copy(this.#kept, this.#keptLength, start, start + taken)
    this.#keptLength += taken
    return end - start
  }

  take(): Uint8Array {
    const taken = this.#kept.subarray(0, this.#keptLength)
    this.#forget()
    return taken
  }

  /** Writes the bytes that were not taken as lines. */
  flush(): void {
    if (this.#keptLength > 0) {
      this.#lines.write(this.#kept.subarray(0, this.#keptLength))
      this.#lines.flush()
    }
    this.#forget()
  }

  #reserve(size: number): void {
    if (size <= this.#kept.length) return
    const larger = Buffer.allocUnsafe(Math.min(this.#most, Math.max(size, this.#kept.length * 2, 256)))
    this.#kept.copy(larger, 0, 0, this.#keptLength)
    this.#kept = larger
  }

  #forget(): void {
    this.length = 0
    this.#kept = NO_BYTES
    this.#keptLength = 0
  }
}
