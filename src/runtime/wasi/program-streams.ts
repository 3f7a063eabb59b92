import type { Descriptor } from './descriptor.ts'
import { WasiError } from './errno.ts'
import { EmptyInput, LineBuffer, LineOutput } from './standard-streams.ts'

/**
 * Standard input and output of programs of which each run is a call: the input of the call, and what may become its
 * output. All modules of a plug-in share them, as the parts of a program do.
 */
export class ProgramStreams {
  readonly input: Descriptor
  readonly output: Descriptor
  readonly #input = new CallInput()
  readonly #output: KeptOutput

  /**
   * @param most - Bytes of the output that are kept.
   * @param writeLine - Takes what was printed and not taken, line by line.
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

  /** How many bytes were printed; there may be fewer to take. */
  get printedLength(): number {
    return this.#output.length
  }

  /** What was printed; it is gone then. */
  takePrinted(): Uint8Array {
    return this.#output.take()
  }

  end(): void {
    this.#input.bytes = NOTHING
    this.#output.flush()
  }
}

const NOTHING = new Uint8Array()

class CallInput extends EmptyInput {
  #bytes: Uint8Array = NOTHING
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

/** Output that is kept up to a length, and counted beyond it. */
class KeptOutput extends LineOutput {
  length = 0
  readonly #most: number
  readonly #lines: LineBuffer
  #kept: Buffer = EMPTY
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

  /** Writes what was not taken as lines. */
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
    this.#kept = EMPTY
    this.#keptLength = 0
  }
}

const EMPTY = Buffer.alloc(0)
