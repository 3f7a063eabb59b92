/** Ids of sections. */
export const SECTION = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  start: 8,
  element: 9,
  code: 10,
  data: 11,
  dataCount: 12,
  tag: 13,
}

/** What is imported or exported. */
export const KIND = { function: 0, table: 1, memory: 2, global: 3, tag: 4 }

/** The sections by their ids; custom ones, which all have the id 0, are left out. */
export function readSections(bytes: Uint8Array): Map<number, Reader> {
  const sections = new Map<number, Reader>()
  const reader = new Reader(bytes, 8)
  while (!reader.done) {
    const id = reader.byte()
    const size = reader.u32()
    if (id !== 0) sections.set(id, new Reader(bytes.subarray(reader.at, reader.at + size)))
    reader.at += size
  }
  return sections
}

/** Limits of a memory, in pages, or of a table, in entries. */
export interface Limits {
  readonly min: bigint
  readonly max: bigint | undefined
}

export function readLimits(reader: Reader): Limits {
  const flags = reader.byte()
  return { min: reader.u64(), max: flags & 1 ? reader.u64() : undefined }
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true }) // a name may begin with U+FEFF

/** Reads a module that the engine has accepted: it does not validate, and never reads beyond the end. */
export class Reader {
  at: number
  readonly #bytes: Uint8Array

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes
    this.at = at
  }

  get done(): boolean {
    return this.at >= this.#bytes.length
  }

  peek(): number {
    return this.#bytes[this.at] ?? 0
  }

  byte(): number {
    const byte = this.peek()
    this.at++
    return byte
  }

  /** An LEB128 number of up to 32 bits. */
  u32(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte()
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) break
    }
    return value >>> 0
  }

  /** An LEB128 number of up to 64 bits. */
  u64(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) break
    }
    return value
  }

  /** Goes past an LEB128 number, however it is meant. */
  skipNumber(): void {
    while (this.byte() >= 0x80);
  }

  name(): string {
    const length = this.u32()
    this.at += length
    return utf8.decode(this.#bytes.subarray(this.at - length, this.at))
  }

  list<Item>(read: () => Item): Item[] {
    const items: Item[] = []
    for (let left = this.u32(); left > 0 && !this.done; left--) items.push(read())
    return items
  }
}
