import { PluginInvalidError } from '../errors/errors.ts'

/**
 * The only reader of a module's bytes. It is as strict as the engine: the engine reads accepted bytes in the same way,
 * or rejects them.
 */
export class ByteReader {
  at: number
  readonly end: number
  readonly bytes: Uint8Array
  readonly #plugin: string

  /** @param plugin - Its name, for messages. */
  constructor(bytes: Uint8Array, at: number, end: number, plugin: string) {
    this.bytes = bytes
    this.at = at
    this.end = end
    this.#plugin = plugin
  }

  get done(): boolean {
    return this.at >= this.end
  }

  /** @throws {@link PluginInvalidError} always. */
  fail(reason: string): never {
    const where = `${reason} (at byte ${this.at})`
    throw new PluginInvalidError(
      this.#plugin,
      `it is not a valid module, or uses an unknown feature: ${where}`,
    )
  }

  byte(): number {
    if (this.at >= this.end) this.fail('it ends too early')
    return this.bytes[this.at++] ?? 0
  }

  /** The next byte, without consuming it; 0 at the end. */
  peek(): number {
    return this.at < this.end ? (this.bytes[this.at] ?? 0) : 0
  }

  /** An unsigned LEB128 number of up to 32 bits. */
  u32(): number {
    const first = this.byte()
    if (first < 0x80) return first
    let value = first & 0x7f
    for (let shift = 7; shift < 28; shift += 7) {
      const byte = this.byte()
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    const last = this.byte()
    if (last > 0x0f) this.fail('it has a number of more than 32 bits')
    return value + last * 0x10_000_000
  }

  /** An unsigned LEB128 number of up to 64 bits. */
  u64(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 63n; shift += 7n) {
      const byte = this.byte()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    const last = this.byte()
    if (last > 1) this.fail('it has a number of more than 64 bits')
    return value | (BigInt(last) << 63n)
  }

  /** A signed LEB128 number of up to 33 bits: an index, or a negative code. */
  s33(): number {
    let value = 0
    let factor = 1
    for (let place = 0; place < 5; place++) {
      const byte = this.byte()
      value += (byte & 0x7f) * factor
      factor *= 128
      if (byte < 0x80) return byte & 0x40 ? value - factor : value
    }
    this.fail('it has a number of more than 33 bits')
  }

  /** Skips a LEB128 number of any size. */
  skipNumber(): void {
    for (let length = 1; this.byte() >= 0x80; length++) {
      if (length === 10) this.fail('it has a number of more than 64 bits')
    }
  }

  skip(count: number): void {
    if (count > this.end - this.at) this.fail('it ends too early')
    this.at += count
  }

  /** Returns a reader of the next bytes, and skips them. */
  part(size: number): ByteReader {
    const start = this.at
    this.skip(size)
    return new ByteReader(this.bytes, start, this.at, this.#plugin)
  }

  /** UTF-8 with its length in front. */
  name(): string {
    const size = this.u32()
    const start = this.at
    this.skip(size)
    try {
      return utf8.decode(this.bytes.subarray(start, this.at))
    } catch {
      this.fail('it has a name that is not UTF-8')
    }
  }
}

/** A name may begin with U+FEFF. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @returns a number as unsigned LEB128, in the fewest possible bytes. */
export function leb(value: number | bigint): Uint8Array {
  if (value < 0x80) return Uint8Array.of(Number(value))
  const bytes: number[] = []
  let rest = BigInt(value)
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0))
    rest >>= 7n
  } while (rest > 0n)
  return Uint8Array.from(bytes)
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}
