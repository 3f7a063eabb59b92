import { ByteReader } from './bytes.ts'
import type { LimitName, ModuleLimits, ProcessTypes } from './limits.ts'
import type { FunctionType, TypeTable, ValueType } from './types.ts'

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
  /** Custom sections of branch hints, which have no id of their own. */
  hints: 0x100,
} as const

/** The name of custom sections with branch hints. */
export const HINTS_NAME = 'metadata.code.branch_hint'

/** The order of sections, which differs from that of their ids. Custom sections may be anywhere. */
export const SECTION_ORDER: readonly number[] = [
  ...[SECTION.type, SECTION.import, SECTION.function, SECTION.table, SECTION.memory, SECTION.tag],
  ...[SECTION.global, SECTION.export, SECTION.start, SECTION.element, SECTION.dataCount],
  ...[SECTION.hints, SECTION.code, SECTION.data],
]

/** The header of every module: the magic number and the version. */
export const MODULE_HEADER_BYTES = 8

/** Kinds of imports and exports, in the order of their binary codes. */
export const ITEM_KINDS = ['function', 'table', 'memory', 'global', 'tag'] as const

export type ItemKind = (typeof ITEM_KINDS)[number]

/** An import of a module, as in `WebAssembly.Module.imports`. */
export interface ImportedItem {
  readonly module: string
  readonly name: string
  readonly kind: ItemKind
}

/** An export of a module, as in `WebAssembly.Module.exports`. */
export interface ExportedItem {
  readonly name: string
  readonly kind: ItemKind
  /** The position of a function among all exports of the module, if the list is partial. */
  readonly place?: number
}

/** The position of a section: from `start` to `end`, with its content from `content`. */
export interface SectionRange {
  readonly id: number
  readonly start: number
  readonly content: number
  readonly end: number
}

/** Limits of a memory, in pages of 64 KiB, or of a table, in entries. */
export interface SizeLimits {
  /** Bits of {@link SIZE_FLAGS}. */
  readonly flags: number
  readonly min: bigint
  readonly max: bigint | undefined
}

/** A maximum follows; shared between threads; addresses of 64 bits. */
export const SIZE_FLAGS = { max: 1, shared: 2, index64: 4 } as const

export interface DefinedTable extends SizeLimits {
  /** The bytes before its limits. */
  readonly type: Uint8Array
  /** The constant expression of its entries; empty if the entries are null. */
  readonly value: Uint8Array
}

export interface DefinedGlobal {
  readonly type: ValueType
  readonly isMutable: boolean
}

/** The functions that a module defines, as parallel lists in order. */
export interface FunctionBodies {
  readonly count: number
  /** The start of its locals. */
  readonly starts: Readonly<Uint32Array>
  readonly ends: Readonly<Uint32Array>
  /** Number of its locals, including parameters. */
  readonly locals: Readonly<Uint32Array>
  /** The offsets in a function, from the start of its locals, of instructions whose branches are rare; few functions have any. */
  readonly rare: ReadonlyMap<number, readonly number[]>
  /** See `BodyFigures`. */
  readonly work: Readonly<Float64Array>
  /** See `BodyFigures`. */
  readonly callValues: Readonly<Float64Array>
  /** See `BodyFigures`. */
  readonly optimisingCost: Readonly<Float64Array>
  /** Marks of its instructions: bits of `MARK`. */
  readonly marks: Readonly<Uint8Array>
}

export interface CustomSection {
  readonly name: string
  readonly content: Uint8Array
}

/** The parsed structure of a module. It is parsed only once. */
export interface ModuleView {
  /** The plug-in's, for messages. */
  readonly name: string
  /** The sections that were read. */
  readonly bytes: Uint8Array
  /** Whether V8 has validated it, or the module that it was made of. Default: that is unknown. */
  readonly isValid?: boolean
  readonly limits: ModuleLimits | 'none'
  readonly sections: readonly SectionRange[]
  readonly types: TypeTable
  /** Type indices of all functions, imported ones first. */
  readonly functions: readonly number[]
  /** Type indices of all tags. */
  readonly tags: readonly number[]
  readonly imports: readonly ImportedItem[]
  /** `index` is its index within its kind; imported items come first. */
  readonly exports: readonly (ExportedItem & { readonly index: number })[]
  /** The memories that it defines; it may import others. */
  readonly memories: readonly SizeLimits[]
  readonly tables: readonly DefinedTable[]
  readonly globals: readonly DefinedGlobal[]
  /** The types of the indices of all memories and tables, imported ones first: `i32` or `i64`. */
  readonly indexTypes: { readonly memories: readonly number[]; readonly tables: readonly number[] }
  /** undefined if its code was not parsed. */
  readonly bodies: FunctionBodies | undefined
  /** The lowest address with initial data: 0 if unknown, infinite if there is none. */
  readonly lowestData: number
  readonly customSections: readonly CustomSection[]
  /** Encoded exports that were added for the host. `exports` does not have them. */
  readonly hostExports: readonly Uint8Array[]
  /** The largest value of each kind, or the sum. */
  readonly figures: Readonly<Record<LimitName, number>>
  /** Bytes of its data, which the engine keeps for the life of the process. */
  readonly processTypes: ProcessTypes
  /** The feature that requires a separate process; undefined if there is none. */
  readonly needsProcess: string | undefined
}

/** The types of a function: `i32`, `i64`, ... */
export interface Signature {
  readonly params: readonly string[]
  readonly results: readonly string[]
}

/** An exported function. */
export interface FunctionExport {
  readonly name: string
  readonly signature: Signature
}

/** Number of imports of a kind, which is the index of the first defined item. */
export function countImported({ imports }: Pick<ModuleView, 'imports'>, wanted: ItemKind): number {
  return imports.filter(({ kind }) => kind === wanted).length
}

/** The index of the function that a module itself starts. */
export function startFunction({ bytes, name, sections }: ModuleView): number | undefined {
  const section = sections.find(({ id }) => id === SECTION.start)
  return section && new ByteReader(bytes, section.content, section.end, name).u32()
}

/** The exported functions of a module with their signatures, which `WebAssembly.Module.exports()` does not return. */
export function exportedFunctions({ exports, functions, types }: ModuleView): FunctionExport[] {
  return exports
    .filter(({ kind }) => kind === 'function')
    .map(({ name, index }) => ({ name, signature: signatureOf(types.functions[functions[index] ?? -1]) }))
}

function signatureOf(type: FunctionType | undefined): Signature {
  if (!type) return { params: ['unknown'], results: [] }
  return { params: type.params.map(({ name }) => name), results: type.results.map(({ name }) => name) }
}
