import type { ByteReader } from './bytes.ts'

/** What a value type is to the limits. */
export type ReferenceKind = 'plain' | 'exception' | 'collected'

export interface ValueType {
  /** As JavaScript would name it; `ref` for references that it has no name for. */
  readonly name: string
  readonly kind: ReferenceKind
  /** Whether it names another type by its index. */
  readonly isIndexed: boolean
}

export const I32 = 0x7f
export const I64 = 0x7e
export const F32 = 0x7d
export const F64 = 0x7c
export const V128 = 0x7b

const TYPE_NAMES: ReadonlyMap<number, string> = new Map([
  [I32, 'i32'],
  [I64, 'i64'],
  [F32, 'f32'],
  [F64, 'f64'],
  [V128, 'v128'],
  [0x70, 'funcref'],
  [0x6f, 'externref'],
])

/** Abstract types of references: func, extern, exn, noextern, nofunc, noexn. */
const PLAIN_HEAP: ReadonlySet<number> = new Set([0x70, 0x6f, 0x72, 0x73])
const EXCEPTION_HEAP: ReadonlySet<number> = new Set([0x69, 0x74])
/** any, eq, i31, struct, array, none */
const COLLECTED_HEAP: ReadonlySet<number> = new Set([0x6e, 0x6d, 0x6c, 0x6b, 0x6a, 0x71])

const BY_CODE = new Map(
  [...TYPE_NAMES].map(([code, name]) => [code, { name, kind: 'plain', isIndexed: false } as const]),
)
const REFERENCES: Readonly<Record<ReferenceKind, ValueType>> = {
  plain: { name: 'ref', kind: 'plain', isIndexed: false },
  exception: { name: 'ref', kind: 'exception', isIndexed: false },
  collected: { name: 'ref', kind: 'collected', isIndexed: false },
}
const INDEXED: ValueType = { name: 'ref', kind: 'plain', isIndexed: true }

/** Reads the type of a value. One that is not known is refused. */
export function readValueType(reader: ByteReader): ValueType {
  const code = reader.byte()
  if (code === 0x63 || code === 0x64) return readHeapType(reader)
  const named = BY_CODE.get(code)
  if (named) return named
  return heapType(reader, code)
}

/** Reads the type of what a reference points to. */
export function readHeapType(reader: ByteReader): ValueType {
  const code = reader.s33()
  return code >= 0 ? INDEXED : heapType(reader, code + 0x80)
}

function heapType(reader: ByteReader, code: number): ValueType {
  if (PLAIN_HEAP.has(code)) return REFERENCES.plain
  if (EXCEPTION_HEAP.has(code)) return REFERENCES.exception
  if (COLLECTED_HEAP.has(code)) return REFERENCES.collected
  reader.fail(`it has a type that is not known (0x${code.toString(16)})`)
}

/** A function's. */
export interface FunctionType {
  readonly params: readonly ValueType[]
  readonly results: readonly ValueType[]
}

/** The types of a module, by their numbers. */
export class TypeTable {
  /** Undefined for what is no function. */
  readonly functions: (FunctionType | undefined)[] = []
  readonly #params: number[] = []
  readonly #results: number[] = []
  readonly #fields: number[] = []

  get count(): number {
    return this.functions.length
  }

  add(type: FunctionType | undefined, fields: number): void {
    this.functions.push(type)
    this.#params.push(type ? type.params.length : -1)
    this.#results.push(type?.results.length ?? 0)
    this.#fields.push(fields)
  }

  isFunction(index: number): boolean {
    return (this.#params[index] ?? -1) >= 0
  }

  /** How many parameters; of what is no function, 0. */
  params(index: number): number {
    return Math.max(0, this.#params[index] ?? 0)
  }

  results(index: number): number {
    return this.#results[index] ?? 0
  }

  /** How many fields a structure has. */
  fields(index: number): number {
    return this.#fields[index] ?? 0
  }
}
