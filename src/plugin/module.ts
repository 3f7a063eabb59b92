/** The types of a function: `i32`, `i64`, ... */
export interface Signature {
  readonly params: readonly string[]
  readonly results: readonly string[]
}

/** What a module exports as a function. */
export interface FunctionExport {
  readonly name: string
  readonly signature: Signature
}

const SECTION = { type: 1, import: 2, function: 3, export: 7 }
const KIND = { function: 0, table: 1, memory: 2, global: 3, tag: 4 }

const TYPE_NAMES = new Map([
  [0x7f, 'i32'],
  [0x7e, 'i64'],
  [0x7d, 'f32'],
  [0x7c, 'f64'],
  [0x7b, 'v128'],
  [0x70, 'funcref'],
  [0x6f, 'externref'],
])

/**
 * The functions that a module exports, with their signatures, which `WebAssembly.Module.exports()` does not tell.
 *
 * @param bytes - A module that `WebAssembly.compile` has accepted: this reader does not validate.
 * @see {@link https://webassembly.github.io/spec/core/binary/modules.html}
 */
export function exportedFunctions(bytes: Uint8Array): FunctionExport[] {
  const sections = readSections(bytes)
  const types = readTypes(sections.get(SECTION.type))
  const functions = [
    ...readImportedFunctions(sections.get(SECTION.import)),
    ...readFunctions(sections.get(SECTION.function)),
  ]
  return readFunctionExports(sections.get(SECTION.export)).map(({ name, index }) => ({
    name,
    signature: types[functions[index] ?? -1] ?? { params: ['unknown'], results: [] },
  }))
}

/**
 * How far a file that was cut off should have gone.
 *
 * @returns undefined if every section lies within the bytes.
 */
export function missingBytes(bytes: Uint8Array): number | undefined {
  const reader = new Reader(bytes, 8)
  while (!reader.done) {
    reader.byte()
    const size = reader.u32()
    if (reader.at + size > bytes.length) return reader.at + size - bytes.length
    reader.at += size
  }
  return reader.at > bytes.length ? reader.at - bytes.length : undefined
}

function readSections(bytes: Uint8Array): Map<number, Reader> {
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

function readTypes(reader: Reader | undefined): (Signature | undefined)[] {
  const types: (Signature | undefined)[] = []
  for (let groups = reader?.u32() ?? 0; reader && groups > 0; groups--) {
    // A recursive group holds several types, any other entry is one. (WasmGC)
    if (reader.peek() !== 0x4e) types.push(readSubType(reader))
    else {
      reader.byte()
      types.push(...reader.list(() => readSubType(reader)))
    }
  }
  return types
}

function readSubType(reader: Reader): Signature | undefined {
  if (reader.peek() === 0x50 || reader.peek() === 0x4f) {
    reader.byte()
    reader.list(() => reader.u32()) // supertypes
  }
  const form = reader.byte()
  if (form === 0x60) {
    return {
      params: reader.list(() => readValueType(reader)),
      results: reader.list(() => readValueType(reader)),
    }
  }
  if (form === 0x5f) reader.list(() => readFieldType(reader))
  else if (form === 0x5e) readFieldType(reader)
  else throw new Error(`unknown type form 0x${form.toString(16)}`)
  return undefined
}

function readFieldType(reader: Reader): void {
  readValueType(reader)
  reader.byte() // mutability
}

function readValueType(reader: Reader): string {
  const code = reader.byte()
  if (code === 0x63 || code === 0x64) {
    reader.u32() // heap type
    return 'ref'
  }
  return TYPE_NAMES.get(code) ?? 'ref'
}

/** Type indices of the imported functions: they come first in the index space. */
function readImportedFunctions(reader: Reader | undefined): number[] {
  const typeIndices: number[] = []
  reader?.list(() => {
    reader.name()
    reader.name()
    const kind = reader.byte()
    if (kind === KIND.function) {
      typeIndices.push(reader.u32())
    } else if (kind === KIND.table) {
      readValueType(reader)
      readLimits(reader)
    } else if (kind === KIND.memory) {
      readLimits(reader)
    } else if (kind === KIND.global) {
      readFieldType(reader)
    } else if (kind === KIND.tag) {
      reader.byte() // attribute
      reader.u32()
    }
  })
  return typeIndices
}

function readLimits(reader: Reader): void {
  const flags = reader.byte()
  reader.u64()
  if (flags & 1) reader.u64()
}

function readFunctions(reader: Reader | undefined): number[] {
  return reader?.list(() => reader.u32()) ?? []
}

function readFunctionExports(reader: Reader | undefined): { name: string; index: number }[] {
  const exports =
    reader?.list(() => ({ name: reader.name(), kind: reader.byte(), index: reader.u32() })) ?? []
  return exports.filter(({ kind }) => kind === KIND.function)
}

const utf8 = new TextDecoder()

class Reader {
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
    return Number(this.u64() & 0xffff_ffffn)
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

  name(): string {
    const length = this.u32()
    this.at += length
    return utf8.decode(this.#bytes.subarray(this.at - length, this.at))
  }

  list<Item>(read: () => Item): Item[] {
    const items: Item[] = []
    for (let left = this.u32(); left > 0; left--) items.push(read())
    return items
  }
}
