import type { ByteReader } from './bytes.ts'
import { BodyReader } from './function-body.ts'
import { ACTION, ACTION_OF, CODE, MARK, MARKS, readCode, skipImmediates } from './instructions.ts'
import { FigureCounter, type LimitName, type ModuleLimits } from './limits.ts'
import {
  type CustomSection,
  countImported,
  type DefinedGlobal,
  type DefinedTable,
  type FunctionBodies,
  type ImportedItem,
  ITEM_KINDS,
  type ModuleView,
  SECTION,
  SIZE_FLAGS,
  type SizeLimits,
} from './module-view.ts'
import { I32, I64, TypeReader, type TypeTable, UNBOUNDED } from './types.ts'

export interface ReadOptions {
  /** Default: {@link MODULE_LIMITS}. `none`: only for modules that were checked before. */
  readonly limits?: ModuleLimits | 'none' | undefined
  /** Whether it may allocate memory that no limit covers. Default: no. */
  readonly allowGc?: boolean | undefined
  /** Whether the instructions of its functions are parsed, which rewriting requires. Default: yes. */
  readonly readsCode?: boolean | undefined
}

/** The content of the sections. */
type Contents = Omit<ModuleView, 'name' | 'bytes' | 'sections' | 'limits'>

/** Reads the contents of sections, in their order, and checks them against the limits. */
export class SectionReader {
  readonly #readsCode: boolean
  readonly #counter: FigureCounter
  readonly #typeReader: TypeReader
  readonly #types: TypeTable
  readonly #imports: ImportedItem[] = []
  readonly #exports: ModuleView['exports'][number][] = []
  readonly #functions: number[] = []
  readonly #tags: number[] = []
  readonly #memories: SizeLimits[] = []
  readonly #tables: DefinedTable[] = []
  readonly #globals: DefinedGlobal[] = []
  readonly #indexTypes = { memories: [] as number[], tables: [] as number[] }
  readonly #customSections: CustomSection[] = []
  #bodies: ReturnType<typeof noBodies> | undefined = noBodies(0)
  #hasCode = false
  #lowestData = Number.POSITIVE_INFINITY

  /** @param name - The plug-in's, for messages. */
  constructor({ limits = {}, allowGc = false, readsCode = true }: ReadOptions, name: string) {
    this.#readsCode = readsCode
    this.#counter = new FigureCounter(limits, name)
    this.#typeReader = new TypeReader(this.#counter, allowGc, name)
    this.#types = this.#typeReader.types
  }

  /** Checks after the last section. @param reader - Fails if sections contradict each other. */
  contents(reader: ByteReader): Contents {
    if (!this.#hasCode && this.#defined() > 0)
      reader.fail('it declares another number of functions than it has')
    return {
      types: this.#types,
      functions: this.#functions,
      tags: this.#tags,
      imports: this.#imports,
      exports: this.#exports,
      memories: this.#memories,
      tables: this.#tables,
      globals: this.#globals,
      indexTypes: this.#indexTypes,
      bodies: this.#bodies,
      lowestData: this.#lowestData,
      customSections: this.#customSections,
      hostExports: [],
      figures: this.#counter.figures,
      processTypes: this.#typeReader.processTypes,
      needsProcess: this.#typeReader.needsProcess,
    }
  }

  /** Records the size of the module. */
  size(bytes: number): void {
    this.#found('moduleBytes', bytes, 'the module')
  }

  /** Number of functions that the module defines. */
  #defined(): number {
    return this.#functions.length - countImported({ imports: this.#imports }, 'function')
  }

  /** Reads a section. @param reader - Covers exactly its content. */
  read(id: number, reader: ByteReader): void {
    switch (id) {
      case SECTION.custom:
        this.#custom(reader)
        break
      case SECTION.type:
        this.#typeReader.section(reader)
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
        this.#list(reader, 'memories', () => this.#memories.push(this.#memory(reader)))
        break
      case SECTION.global:
        this.#list(reader, 'globals', () => {
          this.#globals.push(this.#globalType(reader))
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
    }
  }

  #count(limit: LimitName, more: number, where: string): void {
    this.#counter.count(limit, more, where)
  }

  #found(limit: LimitName, value: number, where: string): void {
    this.#counter.found(limit, value, where)
  }

  #list(reader: ByteReader, limit: LimitName, item: () => void): void {
    const count = reader.u32()
    this.#count(limit, count, 'the module')
    for (let left = count; left > 0; left--) item()
  }

  #custom(reader: ByteReader): void {
    this.#count('customSections', 1, 'the module')
    const name = reader.name()
    this.#customSections.push({ name, content: reader.bytes.subarray(reader.at, reader.end) })
    reader.at = reader.end
  }

  #import(reader: ByteReader): void {
    const start = reader.at
    const [module, name, code] = [reader.name(), reader.name(), reader.byte()]
    this.#count('nameBytes', reader.at - start, 'imports')
    const kind = ITEM_KINDS[code]
    if (!kind) reader.fail('it imports something of an unknown kind')
    this.#imports.push({ module, name, kind })
    if (kind === 'function') {
      this.#count('functions', 1, 'the module')
      this.#functions.push(this.#functionType(reader))
    } else if (kind === 'table') {
      this.#count('tables', 1, 'the module')
      this.#tableType(reader)
    } else if (kind === 'memory') {
      this.#count('memories', 1, 'the module')
      this.#memory(reader)
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

  #table(reader: ByteReader): DefinedTable {
    const start = reader.at
    const hasValue = reader.peek() === WITH_VALUE
    if (hasValue) {
      reader.skip(1)
      if (reader.byte() !== 0) reader.fail('it has a table of an unknown kind')
    }
    const { end, ...limits } = this.#tableType(reader)
    const type = reader.bytes.subarray(start, end)
    const behind = reader.at
    if (hasValue) this.#expression(reader)
    return { ...limits, type, value: reader.bytes.subarray(behind, reader.at) }
  }

  /** @returns also where its limits begin. */
  #tableType(reader: ByteReader): SizeLimits & { readonly end: number } {
    this.#typeReader.kept(reader)
    const end = reader.at
    const size = this.#size(reader)
    this.#indexTypes.tables.push(indexTypeOf(size))
    return { end, ...size }
  }

  #memory(reader: ByteReader): SizeLimits {
    const size = this.#size(reader)
    this.#indexTypes.memories.push(indexTypeOf(size))
    return size
  }

  #size(reader: ByteReader): SizeLimits {
    const flags = reader.byte()
    if (flags > ALL_SIZE_FLAGS) reader.fail('it has limits of an unknown kind')
    return { flags, min: reader.u64(), max: flags & SIZE_FLAGS.max ? reader.u64() : undefined }
  }

  #globalType(reader: ByteReader): DefinedGlobal {
    const type = this.#typeReader.kept(reader)
    const mutability = reader.byte()
    if (mutability > 1) reader.fail('it has a global of an unknown kind')
    return { type, isMutable: mutability === 1 }
  }

  #tag(reader: ByteReader): void {
    if (reader.u32() !== 0) reader.fail('it has a tag of an unknown kind')
    const index = this.#functionType(reader)
    const where = `tag ${this.#tags.length}`
    this.#tags.push(index)
    this.#found('tagValues', this.#types.params(index), where)
    // An exception that may hold exceptions is an unbounded list.
    const params = this.#types.functions[index]?.params ?? []
    if (params.some(({ kind }) => kind === 'exception')) this.#typeReader.unbounded(UNBOUNDED.exceptions)
  }

  #export(reader: ByteReader): void {
    const start = reader.at
    const name = reader.name()
    this.#count('nameBytes', reader.at - start, 'exports')
    this.#found('exportNameBytes', reader.at - start, 'the name of an export')
    const kind = ITEM_KINDS[reader.byte()]
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
      if (hasExpressions) this.#typeReader.value(reader)
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
    if (flags === IN_MEMORY) reader.u32()
    const address = flags === PASSIVE ? Number.POSITIVE_INFINITY : this.#expression(reader)
    this.#lowestData = Math.min(this.#lowestData, flags === IN_MEMORY ? 0 : (address ?? 0))
    reader.skip(reader.u32())
  }

  /** Reads a constant expression to its end. @returns its value if it is a lone `i32.const`. */
  #expression(reader: ByteReader): number | undefined {
    const start = reader.at
    let value: number | undefined
    let instructions = 0
    for (let code = readCode(reader); ACTION_OF[code] !== ACTION.end; code = readCode(reader)) {
      if (MARKS[code] === MARK.collected) this.#typeReader.unbounded(UNBOUNDED.collected)
      instructions++
      if (code === CODE.constant) value = reader.s33() >>> 0
      else if (ACTION_OF[code] === ACTION.heapType) this.#typeReader.heap(reader)
      else if (IN_CONSTANTS.has(ACTION_OF[code] ?? ACTION.unknown)) skipImmediates(reader, code)
      else reader.fail(`it has an unknown constant instruction (0x${code.toString(16)})`)
    }
    this.#found('expressionBytes', reader.at - start, 'a constant expression')
    this.#count('allExpressionBytes', reader.at - start, 'the module')
    return instructions === 1 ? value : undefined
  }

  #code(reader: ByteReader): void {
    const count = reader.u32()
    if (count !== this.#defined()) reader.fail('it declares another number of functions than it has')
    this.#hasCode = true
    this.#found('codeBytes', reader.end - reader.at, 'the code')
    if (!this.#readsCode) {
      this.#bodies = undefined
      reader.at = reader.end
      return
    }
    const imported = this.#functions.length - count
    const context = { types: this.#types, functions: this.#functions, imported, tags: this.#tags }
    const bodyReader = new BodyReader(context, reader)
    const bodies = noBodies(count)
    this.#bodies = bodies
    for (let place = 0; place < count; place++) {
      const body = reader.part(reader.u32())
      bodies.starts[place] = body.at
      bodies.ends[place] = body.end
      bodies.locals[place] = this.#body(body, imported + place, bodyReader)
      bodies.work[place] = bodyReader.work
      bodies.callValues[place] = bodyReader.callValues
      bodies.optimisingCost[place] = bodyReader.optimisingCost
      bodies.marks[place] = bodyReader.marks
    }
    this.#counter.finish()
  }

  /** @returns the number of its locals, including parameters. */
  #body(reader: ByteReader, index: number, bodyReader: BodyReader): number {
    const where = `function ${index}`
    const type = this.#functions[index] ?? -1
    this.#found('functionBytes', reader.end - reader.at, where)
    let locals = this.#types.params(type)
    for (let groups = reader.u32(); groups > 0; groups--) {
      locals += reader.u32()
      this.#typeReader.value(reader)
    }
    this.#found('locals', locals, where)
    this.#count('allLocals', locals, where)
    bodyReader.read(reader, locals, this.#types.results(type))
    bodyReader.count(this.#counter, where)
    if (bodyReader.marks & MARK.collected) this.#typeReader.unbounded(UNBOUNDED.collected)
    return locals
  }
}

function indexTypeOf({ flags }: SizeLimits): number {
  return flags & SIZE_FLAGS.index64 ? I64 : I32
}

function noBodies(count: number) {
  return {
    count,
    starts: new Uint32Array(count),
    ends: new Uint32Array(count),
    locals: new Uint32Array(count),
    rare: new Map<number, readonly number[]>(),
    work: new Float64Array(count),
    callValues: new Float64Array(count),
    optimisingCost: new Float64Array(count),
    marks: new Uint8Array(count),
  } satisfies FunctionBodies
}

/** The first byte of a table with an initial value. */
const WITH_VALUE = 0x40
const ALL_SIZE_FLAGS = SIZE_FLAGS.max | SIZE_FLAGS.shared | SIZE_FLAGS.index64

/** Flags of data. */
const PASSIVE = 1
const IN_MEMORY = 2

/** Instructions allowed in a constant expression. */
const IN_CONSTANTS: ReadonlySet<number> = new Set([
  ...[ACTION.nothing, ACTION.numbers, ACTION.arrayFixed, ACTION.number, ACTION.structNew],
  ...[ACTION.bytes4, ACTION.bytes8, ACTION.bytes16],
])
