import { PluginInvalidError } from './errors.ts'

const MEMORY_SECTION = 5

/** Bits of a memory's limits: a maximum follows, shared between threads, addresses of 64 bits. */
const LIMITS = { max: 1, shared: 2, memory64: 4 }

/**
 * Lowers the maximum of each memory that a module defines, so that `memory.grow` answers -1 to a guest that wants more.
 * V8 has no other limit for one guest. A memory that the module imports has the limit of the one that defines it.
 *
 * @param bytes - Need not be valid: what is not is left to the compiler to refuse, or refused here.
 * @param maxPages - Of 64 KiB.
 * @param name - The plug-in's, for messages.
 * @returns the same bytes if there is nothing to lower.
 * @throws {@link PluginInvalidError} if a memory begins with more than the limit, or cannot be understood.
 */
export function capMemory(bytes: Uint8Array, maxPages: number, name: string): Uint8Array {
  const cap = BigInt(maxPages)
  const reader = new Reader(bytes, name)
  const parts: Uint8Array[] = []
  let copied = 0
  reader.at = HEADER_BYTES
  while (reader.at < bytes.length) {
    const start = reader.at
    const id = reader.byte()
    const size = Number(reader.leb())
    const end = reader.at + size
    if (end > bytes.length) throw new PluginInvalidError(name, 'a section goes beyond its end')
    if (id === MEMORY_SECTION) {
      const limits = cappedSection(reader, end, cap, name)
      parts.push(bytes.subarray(copied, start), Uint8Array.of(MEMORY_SECTION), leb(limits.length), limits)
      copied = end
    }
    reader.at = end
  }
  if (parts.length === 0) return bytes
  return concat([...parts, bytes.subarray(copied)])
}

const HEADER_BYTES = 8

/** The content of a memory section, written anew. */
function cappedSection(reader: Reader, end: number, cap: bigint, name: string): Uint8Array {
  const count = Number(reader.leb())
  const parts = [leb(count)]
  while (reader.at < end) parts.push(cappedLimits(reader, cap, name))
  if (reader.at !== end || parts.length !== 1 + count)
    throw new PluginInvalidError(name, 'its memory section cannot be understood')
  return concat(parts)
}

function cappedLimits(reader: Reader, cap: bigint, name: string): Uint8Array {
  const flags = reader.byte()
  if (flags > (LIMITS.max | LIMITS.shared | LIMITS.memory64)) {
    throw new PluginInvalidError(name, `it has a memory of an unknown kind (${flags})`)
  }
  const min = reader.leb()
  const max = flags & LIMITS.max ? reader.leb() : cap
  if (min > cap) {
    throw new PluginInvalidError(name, `it needs ${min} pages of memory (64 KiB each), and may have ${cap}`)
  }
  return concat([Uint8Array.of(flags | LIMITS.max), leb(min), leb(max < cap ? max : cap)])
}

/** Reads what V8 would read, or throws: a number that it and we read differently would be a way round the cap. */
class Reader {
  at = 0
  readonly #bytes: Uint8Array
  readonly #name: string

  constructor(bytes: Uint8Array, name: string) {
    this.#bytes = bytes
    this.#name = name
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

function leb(value: number | bigint): Uint8Array {
  const bytes: number[] = []
  let rest = BigInt(value)
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0))
    rest >>= 7n
  } while (rest > 0n)
  return Uint8Array.from(bytes)
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}
