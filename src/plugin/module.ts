import { KIND, type Limits, Reader, readLimits, readSections, SECTION } from './module-reader.ts'

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

/** What a module needs from outside, as `WebAssembly.Module.imports` tells it. */
export interface ImportedItem {
  readonly module: string
  readonly name: string
  readonly kind: ExternKind
}

/** What a module gives, as `WebAssembly.Module.exports` tells it. */
export interface ExportedItem {
  readonly name: string
  readonly kind: ExternKind
  /** Of a function on a list that is not whole: its place among all that the module exports. */
  readonly place?: number
}

/** In the order of their numbers in a module: see {@link KIND}. */
const EXTERN_KINDS = ['function', 'table', 'memory', 'global', 'tag'] as const

export type ExternKind = (typeof EXTERN_KINDS)[number]

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
    ...readImports(sections.get(SECTION.import))
      .filter(({ kind }) => kind === KIND.function)
      .map(({ type }) => type),
    ...readFunctions(sections.get(SECTION.function)),
  ]
  return readExports(sections.get(SECTION.export))
    .filter(({ kind }) => kind === KIND.function)
    .map(({ name, index }) => ({
      name,
      signature: types[functions[index] ?? -1] ?? { params: ['unknown'], results: [] },
    }))
}

/**
 * What a module imports, in order. It needs no compiled module.
 *
 * @param bytes - As for {@link exportedFunctions}.
 */
export function moduleImports(bytes: Uint8Array): ImportedItem[] {
  return readImports(readSections(bytes).get(SECTION.import)).map(({ module, name, kind }) => ({
    module,
    name,
    kind: externKind(kind),
  }))
}

/**
 * What a module exports, in order. It needs no compiled module.
 *
 * @param bytes - As for {@link exportedFunctions}.
 */
export function moduleExports(bytes: Uint8Array): ExportedItem[] {
  return readExports(readSections(bytes).get(SECTION.export)).map(({ name, kind }) => ({
    name,
    kind: externKind(kind),
  }))
}

/**
 * The contents of the custom sections of a name.
 *
 * @param bytes - As for {@link exportedFunctions}.
 */
export function customSections(bytes: Uint8Array, name: string): Uint8Array[] {
  const found: Uint8Array[] = []
  const reader = new Reader(bytes, 8)
  while (!reader.done) {
    const [id, size] = [reader.byte(), reader.u32()]
    const content = bytes.subarray(reader.at, reader.at + size)
    reader.at += size
    const section = new Reader(content)
    if (id === SECTION.custom && section.name() === name) found.push(content.subarray(section.at))
  }
  return found
}

/**
 * The types of the functions that a module defines: it may import others.
 *
 * @param bytes - As for {@link exportedFunctions}.
 * @returns undefined if it has a type that is no function, or a function that takes or returns what is no number.
 */
export function numericFunctions(bytes: Uint8Array): Signature[] | undefined {
  const sections = readSections(bytes)
  const types = readTypes(sections.get(SECTION.type))
  const isNumeric = types.every((type) => type && [...type.params, ...type.results].every(isNumber))
  if (!isNumeric) return undefined
  return readFunctions(sections.get(SECTION.function)).map((index) => types[index] as Signature)
}

/**
 * The limits, in pages of 64 KiB, of the memories that a module defines: it may import others.
 *
 * @param bytes - As for {@link exportedFunctions}.
 */
export function definedMemories(bytes: Uint8Array): Limits[] {
  const memories = readSections(bytes).get(SECTION.memory)
  return memories?.list(() => readLimits(memories)) ?? []
}

/**
 * How many things of a kind a module imports: the first that it defines has this number.
 *
 * @param bytes - As for {@link exportedFunctions}.
 * @param kind - One of {@link KIND}.
 */
export function countImports(bytes: Uint8Array, kind: number): number {
  return readImports(readSections(bytes).get(SECTION.import)).filter((each) => each.kind === kind).length
}

/**
 * How many types a module has.
 *
 * @param bytes - As for {@link exportedFunctions}.
 */
export function countTypes(bytes: Uint8Array): number {
  return readTypes(readSections(bytes).get(SECTION.type)).length
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

function isNumber(type: string): boolean {
  return NUMBERS.has(type)
}

const NUMBERS: ReadonlySet<string> = new Set(['i32', 'i64', 'f32', 'f64', 'v128'])

/** What is imported, in order: it comes first in the index space of its kind. */
function readImports(reader: Reader | undefined): ReadImport[] {
  return (
    reader?.list(() => {
      const [module, name, kind] = [reader.name(), reader.name(), reader.byte()]
      return { module, name, kind, type: readImportType(reader, kind) }
    }) ?? []
  )
}

interface ReadImport {
  readonly module: string
  readonly name: string
  readonly kind: number
  /** The type's index, if it is a function's. */
  readonly type: number
}

/** The type's index, if it is a function's. */
function readImportType(reader: Reader, kind: number): number {
  if (kind === KIND.function) return reader.u32()
  if (kind === KIND.table) {
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
  return -1
}

function readFunctions(reader: Reader | undefined): number[] {
  return reader?.list(() => reader.u32()) ?? []
}

function readExports(reader: Reader | undefined): { name: string; kind: number; index: number }[] {
  return reader?.list(() => ({ name: reader.name(), kind: reader.byte(), index: reader.u32() })) ?? []
}

function externKind(kind: number): ExternKind {
  const name = EXTERN_KINDS[kind]
  if (!name) throw new Error(`unknown kind ${kind}`)
  return name
}
