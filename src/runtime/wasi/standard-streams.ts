import { Descriptor, FILETYPE } from './descriptor.ts'
import { WasiError } from './errno.ts'
import type { LineBuffer } from './line-buffer.ts'
import { STREAM_INPUT, STREAM_OUTPUT } from './rights.ts'

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
