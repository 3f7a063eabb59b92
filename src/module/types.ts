import { PluginUnboundedError } from '../errors/errors.ts'
import type { ByteReader } from './bytes.ts'
import type { FigureCounter, ProcessTypes } from './limits.ts'

/** Categories of value types for the limits. */
type ReferenceKind = 'plain' | 'exception' | 'collected'

export interface ValueType {
  /** The type name in JavaScript; `ref` for references without a name there. */
  readonly name: string
  readonly kind: ReferenceKind
  /** Whether a type index follows. */
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

/** A type of numbers by its code. */
export function numberType(code: typeof I32 | typeof I64): ValueType {
  return { name: code === I32 ? 'i32' : 'i64', kind: 'plain', isIndexed: false }
}

/** Reads a value type. Unknown types are rejected. */
export function readValueType(reader: ByteReader): ValueType {
  const code = reader.byte()
  if (code === 0x63 || code === 0x64) return readHeapType(reader)
  const named = BY_CODE.get(code)
  if (named) return named
  return heapType(reader, code)
}

/** Reads the target type of a reference. */
export function readHeapType(reader: ByteReader): ValueType {
  const code = reader.s33()
  return code >= 0 ? INDEXED : heapType(reader, code + 0x80)
}

function heapType(reader: ByteReader, code: number): ValueType {
  if (PLAIN_HEAP.has(code)) return REFERENCES.plain
  if (EXCEPTION_HEAP.has(code)) return REFERENCES.exception
  if (COLLECTED_HEAP.has(code)) return REFERENCES.collected
  reader.fail(`it has an unknown type (0x${code.toString(16)})`)
}

/** A function type. */
export interface FunctionType {
  readonly params: readonly ValueType[]
  readonly results: readonly ValueType[]
}

/** The types of a module, by index. */
export class TypeTable {
  /** undefined if it is not a function type. */
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

  /** @returns a copy with further types; undefined is a type without fields that is no function type. */
  with(more: readonly (FunctionType | undefined)[]): TypeTable {
    const all = new TypeTable()
    this.functions.forEach((type, index) => {
      all.add(type, this.fields(index))
    })
    for (const type of more) all.add(type, 0)
    return all
  }

  isFunction(index: number): boolean {
    return (this.#params[index] ?? -1) >= 0
  }

  /** Number of parameters; 0 if it is not a function type. */
  params(index: number): number {
    return Math.max(0, this.#params[index] ?? 0)
  }

  results(index: number): number {
    return this.#results[index] ?? 0
  }

  /** Number of fields of a structure. */
  fields(index: number): number {
    return this.#fields[index] ?? 0
  }
}

/** Type features whose values no memory limit covers. */
export const UNBOUNDED = {
  collected: 'garbage-collected types',
  exceptions: 'exceptions that are kept in tables, globals or other exceptions',
} as const

/** Reads the types of a module and the types of its values. Rejects unbounded types unless they are allowed. */
export class TypeReader {
  readonly types = new TypeTable()
  /** The reason why the module requires a separate process; undefined if there is none. */
  needsProcess: string | undefined
  readonly #counter: FigureCounter
  readonly #allowGc: boolean
  readonly #plugin: string
  readonly #shared = new Set<string>()
  #own = 0

  /** @param plugin - Its name, for messages. */
  constructor(counter: FigureCounter, allowGc: boolean, plugin: string) {
    this.#counter = counter
    this.#allowGc = allowGc
    this.#plugin = plugin
  }

  get processTypes(): ProcessTypes {
    return { shared: [...this.#shared], own: this.#own }
  }

  /** Records that the module uses an unbounded feature. @throws {@link PluginUnboundedError} if that is not allowed. */
  unbounded(what: string): void {
    if (!this.#allowGc) throw new PluginUnboundedError(this.#plugin, what)
    this.needsProcess ??= what
  }

  /** Reads a value type. */
  value(reader: ByteReader): ValueType {
    const type = readValueType(reader)
    if (type.kind === 'collected') this.unbounded(UNBOUNDED.collected)
    return type
  }

  /** Reads the type of a stored value: an exception in it may hold other exceptions, without a bound. */
  kept(reader: ByteReader): ValueType {
    const type = this.value(reader)
    if (type.kind === 'exception') this.unbounded(UNBOUNDED.exceptions)
    return type
  }

  /** Reads the target type of a reference. */
  heap(reader: ByteReader): void {
    if (readHeapType(reader).kind === 'collected') this.unbounded(UNBOUNDED.collected)
  }

  /** Reads the type section. */
  section(reader: ByteReader): void {
    for (let left = reader.u32(); left > 0; left--) {
      if (reader.peek() !== FORM.group) {
        this.#type(reader)
        continue
      }
      reader.byte()
      this.unbounded(UNBOUNDED.collected)
      for (let members = reader.u32(); members > 0; members--) this.#type(reader)
    }
  }

  #type(reader: ByteReader): void {
    this.#counter.count('types', 1, 'the module')
    const start = reader.at
    let form = reader.byte()
    if (form === FORM.subtype || form === FORM.finalSubtype) {
      this.unbounded(UNBOUNDED.collected)
      for (let supertypes = reader.u32(); supertypes > 0; supertypes--) reader.u32()
      form = reader.byte()
    }
    const where = `type ${this.types.count}`
    if (form === FORM.function) {
      const params = this.#values(reader, where)
      const results = this.#values(reader, where)
      this.#counter.found('signatureValues', params.length + results.length, where)
      this.types.add({ params, results }, 0)
      if ([...params, ...results].some(({ isIndexed }) => isIndexed)) this.#own++
      else this.#shared.add(sharedTypeKey(reader.bytes.subarray(start, reader.at)))
      return
    }
    this.unbounded(UNBOUNDED.collected)
    this.#own++
    if (form === FORM.array) {
      this.#field(reader)
      this.types.add(undefined, 0)
    } else if (form === FORM.structure) {
      const fields = reader.u32()
      this.#counter.found('signatureValues', fields, where)
      this.#counter.count('typeValues', fields, where)
      for (let left = fields; left > 0; left--) this.#field(reader)
      this.types.add(undefined, fields)
    } else reader.fail(`it has an unknown type (0x${form.toString(16)})`)
  }

  #values(reader: ByteReader, where: string): ValueType[] {
    const count = reader.u32()
    this.#counter.found('signatureValues', count, where)
    this.#counter.count('typeValues', count, where)
    const types: ValueType[] = []
    for (let left = count; left > 0; left--) types.push(this.value(reader))
    return types
  }

  #field(reader: ByteReader): void {
    if (PACKED.has(reader.peek())) reader.skip(1)
    else this.kept(reader)
    if (reader.byte() > 1) reader.fail('it has a field of an unknown kind')
  }
}

/** The key of an encoded type in {@link ProcessTypes}. */
export function sharedTypeKey(type: Uint8Array): string {
  return Buffer.from(type).toString('latin1')
}

/** The first byte of a function type. */
export const FUNCTION_FORM = 0x60

/** The first bytes of types: of a function, and of garbage-collected types. */
const FORM = {
  function: FUNCTION_FORM,
  structure: 0x5f,
  array: 0x5e,
  subtype: 0x50,
  finalSubtype: 0x4f,
  group: 0x4e,
} as const

/** Field types that are not value types: `i8` and `i16`. */
const PACKED: ReadonlySet<number> = new Set([0x78, 0x77])
