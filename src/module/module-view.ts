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
} as const

/** The order of sections, which is not that of their ids. Custom ones may be anywhere. */
export const SECTION_ORDER: readonly number[] = [
  ...[SECTION.type, SECTION.import, SECTION.function, SECTION.table, SECTION.memory, SECTION.tag],
  ...[SECTION.global, SECTION.export, SECTION.start, SECTION.element, SECTION.dataCount],
  ...[SECTION.code, SECTION.data],
]

/** Of every module: the magic number and the version. */
export const MODULE_HEADER_BYTES = 8

/** What is imported or exported, in the order of their numbers in a module. */
export const ITEM_KINDS = ['function', 'table', 'memory', 'global', 'tag'] as const

export type ItemKind = (typeof ITEM_KINDS)[number]

/** What a module needs from outside, as `WebAssembly.Module.imports` tells it. */
export interface ImportedItem {
  readonly module: string
  readonly name: string
  readonly kind: ItemKind
}

/** What a module gives, as `WebAssembly.Module.exports` tells it. */
export interface ExportedItem {
  readonly name: string
  readonly kind: ItemKind
  /** Of a function on a list that is not whole: its place among all that the module exports. */
  readonly place?: number
}

/** Where a section is: all of it from `start` to `end`, its content from `content`. */
export interface SectionPlace {
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
  /** What stands before its limits. */
  readonly type: Uint8Array
  /** The constant expression of its entries; empty if they are null. */
  readonly value: Uint8Array
}

export interface DefinedGlobal {
  readonly type: ValueType
  readonly isMutable: boolean
}

/** The functions that a module defines, in order: a place in each list is one's. */
export interface FunctionBodies {
  readonly count: number
  /** Where its locals begin. */
  readonly starts: Readonly<Uint32Array>
  readonly ends: Readonly<Uint32Array>
  /** How many locals it has, with its parameters. */
  readonly locals: Readonly<Uint32Array>
  /** See `BodyFigures`. */
  readonly work: Readonly<Float64Array>
  /** What its instructions do: bits of `MARK`. */
  readonly marks: Readonly<Uint8Array>
}

export interface CustomSection {
  readonly name: string
  readonly content: Uint8Array
}

/** What was read of a module, once: whatever else is asked of it is answered from here. */
export interface ModuleView {
  /** The plug-in's, for messages. */
  readonly name: string
  /** Those that were read. */
  readonly bytes: Uint8Array
  readonly limits: ModuleLimits | 'none'
  readonly sections: readonly SectionPlace[]
  readonly types: TypeTable
  /** Numbers of the types of all functions, those that are imported first. */
  readonly functions: readonly number[]
  /** Numbers of the types of all tags. */
  readonly tags: readonly number[]
  readonly imports: readonly ImportedItem[]
  /** `index` is its number among those of its kind; imported ones come first. */
  readonly exports: readonly (ExportedItem & { readonly index: number })[]
  /** Those that it defines: it may import others. */
  readonly memories: readonly SizeLimits[]
  readonly tables: readonly DefinedTable[]
  readonly globals: readonly DefinedGlobal[]
  /** Undefined if its code was not read. */
  readonly bodies: FunctionBodies | undefined
  /** The lowest address at which it is born with data: 0 if that is not known, infinite if there is none. */
  readonly lowestData: number
  readonly customSections: readonly CustomSection[]
  /** The largest of each kind that was found, or their sum. */
  readonly figures: Readonly<Record<LimitName, number>>
  /** What the engine would keep of it for as long as the process lives. */
  readonly processTypes: ProcessTypes
  /** Why it has to run in a process of its own; undefined if it need not. */
  readonly needsProcess: string | undefined
}

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

/** How many things of a kind a module imports: the first that it defines has this number. */
export function countImported({ imports }: Pick<ModuleView, 'imports'>, wanted: ItemKind): number {
  return imports.filter(({ kind }) => kind === wanted).length
}

/** The functions that a module exports, with their signatures, which `WebAssembly.Module.exports()` does not tell. */
export function exportedFunctions({ exports, functions, types }: ModuleView): FunctionExport[] {
  return exports
    .filter(({ kind }) => kind === 'function')
    .map(({ name, index }) => ({ name, signature: signatureOf(types.functions[functions[index] ?? -1]) }))
}

function signatureOf(type: FunctionType | undefined): Signature {
  if (!type) return { params: ['unknown'], results: [] }
  return { params: type.params.map(({ name }) => name), results: type.results.map(({ name }) => name) }
}
