import { PluginTooComplexError, PluginUnboundedError } from '../errors/errors.ts'
import { ByteReader } from './bytes.ts'
import { BodyReader } from './function-body.ts'
import { ACTION, codeOf, DO, FIRST_PREFIX, GC_CODES } from './instructions.ts'
import { LIMIT_NAMES, type LimitName, MODULE_LIMITS, type ModuleLimits } from './limits.ts'
import type { ModuleTypes } from './type-budget.ts'
import { type FunctionType, readHeapType, readValueType, TypeTable, type ValueType } from './types.ts'

/** What is imported or exported, in the order of their numbers in a module. */
const KINDS = ['function', 'table', 'memory', 'global', 'tag'] as const

export type ItemKind = (typeof KINDS)[number]

export interface ModuleImport {
  readonly module: string
  readonly name: string
  readonly kind: ItemKind
}

export interface ModuleExport {
  readonly name: string
  readonly kind: ItemKind
  /** Its number among those of its kind; imported ones come first. */
  readonly index: number
}

/** Limits of a memory, in pages, or of a table, in entries. */
export interface Size {
  readonly min: bigint
  readonly max: bigint | undefined
}

/** What {@link checkModule} has read. It is plain data. */
export interface ModuleView {
  readonly imports: readonly ModuleImport[]
  readonly exports: readonly ModuleExport[]
  /** Types of all functions, those that are imported first. */
  readonly functions: readonly FunctionType[]
  /** Of the memories that it defines. */
  readonly memories: readonly Size[]
  /** Of the tables that it defines. */
  readonly tables: readonly Size[]
  /** The largest of each kind that was found. */
  readonly figures: Readonly<Record<LimitName, number>>
  /** Its types, for {@link TypeBudget}: a text for each that other modules can share, and how many cannot be. */
  readonly types: ModuleTypes
  /** Why it has to run in a process of its own; undefined if it need not. */
  readonly needsProcess: string | undefined
}

export interface CheckOptions {
  /** Default: those of {@link MODULE_LIMITS}. */
  readonly limits?: ModuleLimits | undefined
  /** Whether it may allocate what no limit of ours bounds. Default: no. */
  readonly allowGc?: boolean | undefined
}

/**
 * Reads a whole module, before it is compiled: what it asks of the compiler is within the limits, and what it holds
 * outside of its memory is bounded. One pass, whose time grows with the bytes only. The engine validates; what this
 * accepts the engine reads in the same way, or refuses.
 *
 * @param name - The plug-in's, for messages.
 * @throws {@link PluginTooComplexError} if it is beyond a limit.
 * @throws {@link PluginUnboundedError} if it uses garbage-collected types, or keeps exceptions, and may not.
 * @throws {@link PluginInvalidError} if something in it is not understood.
 */
export function checkModule(bytes: Uint8Array, options: CheckOptions, name: string): ModuleView {
  return new Check(bytes, options, name).run()
}

const HEADER_BYTES = 8

/** Ids of sections. */
const SECTION = {
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

class Check {
  readonly #bytes: Uint8Array
  readonly #name: string
  readonly #limits: ModuleLimits
  readonly #allowGc: boolean
  readonly #figures: Record<LimitName, number> = Object.fromEntries(
    LIMIT_NAMES.map((limit) => [limit, 0]),
  ) as Record<LimitName, number>
  readonly #types = new TypeTable()
  readonly #shared = new Set<string>()
  #own = 0
  readonly #imports: ModuleImport[] = []
  readonly #exports: ModuleExport[] = []
  readonly #functions: number[] = []
  readonly #tags: number[] = []
  readonly #memories: Size[] = []
  readonly #tables: Size[] = []
  #imported = 0
  #bodies = 0
  #needsProcess: string | undefined

  constructor(bytes: Uint8Array, { limits = {}, allowGc = false }: CheckOptions, name: string) {
    this.#bytes = bytes
    this.#name = name
    this.#limits = limits
    this.#allowGc = allowGc
  }

  run(): ModuleView {
    const bytes = this.#bytes
    this.#found('moduleBytes', bytes.length, 'the module')
    const reader = new ByteReader(bytes, HEADER_BYTES, bytes.length, this.#name)
    let seen = 0
    while (!reader.done) {
      const id = reader.byte()
      const section = reader.part(reader.u32())
      if (id !== SECTION.custom) {
        if (seen & (1 << id)) reader.fail(`it has section ${id} twice`)
        seen |= 1 << id
      }
      this.#section(id, section)
      if (!section.done) section.fail(`section ${id} is longer than what is in it`)
    }
    if (this.#bodies !== this.#functions.length - this.#imported)
      reader.fail('it has not as many functions as it declares')
    return {
      imports: this.#imports,
      exports: this.#exports,
      functions: this.#functions.map((type) => this.#types.functions[type] ?? { params: [], results: [] }),
      memories: this.#memories,
      tables: this.#tables,
      figures: this.#figures,
      types: { shared: [...this.#shared], own: this.#own },
      needsProcess: this.#needsProcess,
    }
  }

  #section(id: number, reader: ByteReader): void {
    switch (id) {
      case SECTION.custom:
        this.#custom(reader)
        break
      case SECTION.type:
        this.#typeSection(reader)
        break
      case SECTION.import:
        this.#list(reader, 'imports', () => this.#import(reader))
        break
      case SECTION.function:
        this.#functionSection(reader)
        break
      case SECTION.table:
        this.#list(reader, 'tables', () => this.#tables.push(this.#table(reader)))
        break
      case SECTION.memory:
        this.#list(reader, 'memories', () => this.#memories.push(this.#size(reader)))
        break
      case SECTION.global:
        this.#list(reader, 'globals', () => {
          this.#globalType(reader)
          this.#expression(reader)
        })
        break
      case SECTION.export:
        this.#list(reader, 'exports', () => this.#export(reader))
        break
      case SECTION.start:
      case SECTION.dataCount:
        reader.u32()
        break
      case SECTION.element:
        this.#list(reader, 'elementSegments', () => this.#element(reader))
        break
      case SECTION.code:
        this.#code(reader)
        break
      case SECTION.data:
        this.#list(reader, 'dataSegments', () => this.#data(reader))
        break
      case SECTION.tag:
        this.#list(reader, 'tags', () => this.#tag(reader))
        break
      default:
        reader.fail(`it has a section that is not known (${id})`)
    }
  }

  /** Adds to a figure. */
  #count(limit: LimitName, more: number, where: string): void {
    this.#found(limit, this.#figures[limit] + more, where)
  }

  /** Notes a figure that is the largest so far. */
  #found(limit: LimitName, value: number, where: string): void {
    if (value <= this.#figures[limit]) return
    this.#figures[limit] = value
    const most = this.#limits[limit] ?? MODULE_LIMITS[limit].limit
    if (value > most) {
      const remedy = `if you trust it, --module-limit ${limit}=${value} (option "moduleLimits")`
      throw new PluginTooComplexError(this.#name, where, value, MODULE_LIMITS[limit].what, most, remedy)
    }
  }

  #unbounded(what: string): void {
    if (!this.#allowGc) throw new PluginUnboundedError(this.#name, what)
    this.#needsProcess ??= what
  }

  #list(reader: ByteReader, limit: LimitName, item: () => void): void {
    const count = reader.u32()
    this.#count(limit, count, 'the module')
    for (let left = count; left > 0; left--) item()
  }

  #custom(reader: ByteReader): void {
    this.#count('customSections', 1, 'the module')
    reader.name()
    reader.at = reader.end
  }

  #valueType(reader: ByteReader): ValueType {
    const type = readValueType(reader)
    if (type.kind === 'collected') this.#unbounded(GC)
    return type
  }

  #typeSection(reader: ByteReader): void {
    for (let left = reader.u32(); left > 0; left--) {
      if (reader.bytes[reader.at] !== 0x4e) {
        this.#type(reader)
        continue
      }
      reader.byte()
      this.#unbounded(GC)
      for (let members = reader.u32(); members > 0; members--) this.#type(reader)
    }
  }

  #type(reader: ByteReader): void {
    this.#count('types', 1, 'the module')
    const start = reader.at
    let form = reader.byte()
    if (form === 0x50 || form === 0x4f) {
      this.#unbounded(GC)
      for (let supertypes = reader.u32(); supertypes > 0; supertypes--) reader.u32()
      form = reader.byte()
    }
    const where = `type ${this.#types.count}`
    if (form === 0x60) {
      const params = this.#values(reader, where)
      const results = this.#values(reader, where)
      this.#found('signatureValues', params.length + results.length, where)
      this.#types.add({ params, results }, 0)
      if ([...params, ...results].some(({ isIndexed }) => isIndexed)) this.#own++
      else this.#shared.add(Buffer.from(reader.bytes.subarray(start, reader.at)).toString('latin1'))
      return
    }
    this.#unbounded(GC)
    this.#own++
    if (form === 0x5e) {
      this.#field(reader)
      this.#types.add(undefined, 0)
    } else if (form === 0x5f) {
      const fields = reader.u32()
      this.#found('signatureValues', fields, where)
      this.#count('typeValues', fields, where)
      for (let left = fields; left > 0; left--) this.#field(reader)
      this.#types.add(undefined, fields)
    } else reader.fail(`it has a type that is not known (0x${form.toString(16)})`)
  }

  #values(reader: ByteReader, where: string): ValueType[] {
    const count = reader.u32()
    this.#found('signatureValues', count, where)
    this.#count('typeValues', count, where)
    const types: ValueType[] = []
    for (let left = count; left > 0; left--) types.push(this.#valueType(reader))
    return types
  }

  #field(reader: ByteReader): void {
    const code = reader.bytes[reader.at]
    if (code === 0x78 || code === 0x77) reader.byte()
    else if (this.#valueType(reader).kind === 'exception') this.#unbounded(EXCEPTIONS)
    if (reader.byte() > 1) reader.fail('it has a field of an unknown kind')
  }

  #import(reader: ByteReader): void {
    const start = reader.at
    const [module, name, code] = [reader.name(), reader.name(), reader.byte()]
    this.#count('nameBytes', reader.at - start, 'imports')
    const kind = KINDS[code]
    if (!kind) reader.fail('it imports something of an unknown kind')
    this.#imports.push({ module, name, kind })
    if (kind === 'function') {
      this.#count('functions', 1, 'the module')
      this.#functions.push(this.#functionType(reader))
      this.#imported++
    } else if (kind === 'table') {
      this.#count('tables', 1, 'the module')
      this.#tableType(reader)
    } else if (kind === 'memory') {
      this.#count('memories', 1, 'the module')
      this.#size(reader)
    } else if (kind === 'global') {
      this.#count('globals', 1, 'the module')
      this.#globalType(reader)
    } else {
      this.#count('tags', 1, 'the module')
      this.#tag(reader)
    }
  }

  #functionType(reader: ByteReader): number {
    const index = reader.u32()
    if (!this.#types.isFunction(index)) reader.fail(`type ${index} is not that of a function`)
    return index
  }

  #functionSection(reader: ByteReader): void {
    const count = reader.u32()
    this.#count('functions', count, 'the module')
    for (let left = count; left > 0; left--) this.#functions.push(this.#functionType(reader))
  }

  #table(reader: ByteReader): Size {
    if (reader.bytes[reader.at] !== 0x40) return this.#tableType(reader)
    reader.byte()
    if (reader.byte() !== 0) reader.fail('it has a table of an unknown kind')
    const size = this.#tableType(reader)
    this.#expression(reader)
    return size
  }

  #tableType(reader: ByteReader): Size {
    if (this.#valueType(reader).kind === 'exception') this.#unbounded(EXCEPTIONS)
    return this.#size(reader)
  }

  #size(reader: ByteReader): Size {
    const flags = reader.byte()
    if (flags > 7) reader.fail('it has limits of an unknown kind')
    return { min: reader.u64(), max: flags & 1 ? reader.u64() : undefined }
  }

  #globalType(reader: ByteReader): void {
    if (this.#valueType(reader).kind === 'exception') this.#unbounded(EXCEPTIONS)
    if (reader.byte() > 1) reader.fail('it has a global of an unknown kind')
  }

  #tag(reader: ByteReader): void {
    if (reader.u32() !== 0) reader.fail('it has a tag of an unknown kind')
    const index = this.#functionType(reader)
    const where = `tag ${this.#tags.length}`
    this.#tags.push(index)
    this.#found('tagValues', this.#types.params(index), where)
    // An exception that holds exceptions is a list without an end.
    const params = this.#types.functions[index]?.params ?? []
    if (params.some(({ kind }) => kind === 'exception')) this.#unbounded(EXCEPTIONS)
  }

  #export(reader: ByteReader): void {
    const start = reader.at
    const name = reader.name()
    this.#count('nameBytes', reader.at - start, 'exports')
    const kind = KINDS[reader.byte()]
    if (!kind) reader.fail('it exports something of an unknown kind')
    this.#exports.push({ name, kind, index: reader.u32() })
  }

  #element(reader: ByteReader): void {
    const flags = reader.u32()
    if (flags > 7) reader.fail('it has elements of an unknown kind')
    const isActive = (flags & 1) === 0
    if (isActive) {
      if (flags & 2) reader.u32() // table
      this.#expression(reader)
    }
    const hasExpressions = (flags & 4) !== 0
    if (flags & 3) {
      if (hasExpressions) this.#valueType(reader)
      else if (reader.byte() !== 0) reader.fail('it has elements of an unknown kind')
    }
    const count = reader.u32()
    this.#count('elements', count, 'the module')
    for (let left = count; left > 0; left--) {
      if (hasExpressions) this.#expression(reader)
      else reader.u32()
    }
  }

  #data(reader: ByteReader): void {
    const flags = reader.u32()
    if (flags > 2) reader.fail('it has data of an unknown kind')
    if (flags === 2) reader.u32() // memory
    if (flags !== 1) this.#expression(reader)
    reader.skip(reader.u32())
  }

  /** A constant one, up to its end. */
  #expression(reader: ByteReader): void {
    const start = reader.at
    for (let opcode = reader.byte(); opcode !== END; opcode = reader.byte()) {
      const code = opcode >= FIRST_PREFIX ? codeOf(opcode, reader.u32()) : opcode
      if (code >= GC_CODES.first && code < GC_CODES.behind) this.#unbounded(GC)
      switch (ACTION[code]) {
        case DO.nothing:
          break
        case DO.numbers:
        case DO.arrayFixed:
          reader.skipNumber()
          reader.skipNumber()
          break
        case DO.number:
        case DO.structNew:
          reader.skipNumber()
          break
        case DO.bytes4:
          reader.skip(4)
          break
        case DO.bytes8:
          reader.skip(8)
          break
        case DO.bytes16:
          reader.skip(16)
          break
        case DO.heapType:
          this.#heapType(reader)
          break
        default:
          reader.fail(`it has a constant that is not understood (0x${opcode.toString(16)})`)
      }
    }
    this.#found('expressionBytes', reader.at - start, 'a constant expression')
  }

  #heapType(reader: ByteReader): void {
    if (readHeapType(reader).kind === 'collected') this.#unbounded(GC)
  }

  #code(reader: ByteReader): void {
    const count = reader.u32()
    if (count !== this.#functions.length - this.#imported)
      reader.fail('it has not as many functions as it declares')
    this.#found('codeBytes', reader.end - reader.at, 'the code')
    const bodies = new BodyReader(this.#bytes, {
      types: this.#types,
      functions: this.#functions,
      tags: this.#tags,
    })
    for (; this.#bodies < count; this.#bodies++) {
      const index = this.#imported + this.#bodies
      this.#body(reader.part(reader.u32()), index, bodies)
    }
  }

  #body(reader: ByteReader, index: number, bodies: BodyReader): void {
    const where = `function ${index}`
    const size = reader.end - reader.at
    const type = this.#functions[index] ?? -1
    this.#found('functionBytes', size, where)
    let locals = this.#types.params(type)
    for (let groups = reader.u32(); groups > 0; groups--) {
      locals += reader.u32()
      this.#valueType(reader)
    }
    this.#found('locals', locals, where)
    this.#count('allLocals', locals, where)
    const failed = bodies.read(reader.at, reader.end, locals, this.#types.results(type))
    if (failed !== undefined) {
      reader.at = Math.min(failed, reader.end)
      reader.fail(`an instruction of function ${index} is not understood`)
    }
    reader.at = reader.end
    const {
      nesting,
      stackValues,
      branchTargets,
      work,
      callValues,
      joins,
      loopJoins,
      walk,
      loopBytes,
      isCollected,
    } = bodies.figures
    this.#found('nesting', nesting, where)
    this.#found('stackValues', stackValues, where)
    this.#found('branchTargets', branchTargets, where)
    this.#found('functionWork', work, where)
    this.#count('allWork', work, 'the module')
    this.#found('loopBytes', loopBytes, where)
    this.#found('callValues', callValues, where)
    this.#count('allCallValues', callValues, 'the module')
    this.#found('joins', joins, where)
    this.#found('loopJoins', loopJoins, where)
    this.#found('walk', walk, where)
    if (isCollected) this.#unbounded(GC)
  }
}

const END = 0x0b
const GC = 'garbage-collected types'
const EXCEPTIONS = 'exceptions that are kept in tables, globals or other exceptions'
