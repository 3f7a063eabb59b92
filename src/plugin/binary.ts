import { PluginInvalidError } from '../errors/errors.ts'

/** Of every module: the magic number and the version. */
export const HEADER_BYTES = 8

/** Reads what V8 would read, or throws: a number that it and we read differently would be a way round the cap. */
export class Reader {
  at = 0
  readonly #bytes: Uint8Array
  readonly #name: string

  constructor(bytes: Uint8Array, name: string) {
    this.#bytes = bytes
    this.#name = name
  }

  since(start: number): Uint8Array {
    return this.#bytes.subarray(start, this.at)
  }

  byte(): number {
    const byte = this.#bytes[this.at++]
    if (byte === undefined) throw new PluginInvalidError(this.#name, 'it ends in the middle of a section')
    return byte
  }

  /** An LEB128 number of up to 64 bits. */
  leb(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new PluginInvalidError(this.#name, 'it has a number of more than 64 bits')
  }
}

/** @returns a number as LEB128. */
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
