import { BlockStack, OPENED_BY } from './block-stack.ts'
import type { ByteReader } from './bytes.ts'
import { Conditions } from './conditions.ts'
import {
  ACTION,
  ACTION_OF,
  CODE,
  codeOf,
  FIRST_PREFIX,
  MARK,
  MARKS,
  NO_RESULT,
  POPS,
  PUSHES,
  readHandlerKind,
  skipAccess,
  skipImmediates,
} from './instructions.ts'
import type { FigureCounter } from './limits.ts'
import { OPERATIONS, OPTIMISING, OPTIMISING_COST, optimisingCostOf, SLOW_PATH } from './optimising-cost.ts'
import { readHeapType, readValueType, type TypeTable } from './types.ts'

/** The compilation cost of a function. */
export interface BodyFigures {
  /** Deepest nesting of blocks. */
  readonly nesting: number
  /** Maximum number of values on its stack. */
  readonly stackValues: number
  /** Maximum number of targets of one `br_table`. */
  readonly branchTargets: number
  /**
   * Values that a compiler has to place: all locals and the stack at each branch and at each end of a block, and the
   * arguments at each call.
   */
  readonly work: number
  /** Arguments and results of all calls. */
  readonly callValues: number
  /** Values that differ where branches meet, counted per branch. */
  readonly joins: number
  /** Values that differ where branches meet at the start of a loop, counted per branch. */
  readonly loopJoins: number
  /** All locals and the stack, summed over all instructions. */
  readonly walk: number
  /** Lengths of all loops, each including its inner loops. */
  readonly loopBytes: number
  /** Its cost for the optimising compiler, estimated: see `optimising-cost.ts`. */
  readonly optimisingCost: number
  /** Marks of its instructions: bits of `MARK`. */
  readonly marks: number
}

/** The index spaces that a function may refer to. */
interface BodyContext {
  readonly types: TypeTable
  /** Types of all functions, imported ones first. */
  readonly functions: ArrayLike<number>
  /** Number of imported functions. */
  readonly imported: number
  /** Types of all tags. */
  readonly tags: ArrayLike<number>
}

/** Reads functions one after another, and exposes the figures of the last one: its memory is reused. */
export class BodyReader implements BodyFigures {
  branchTargets = 0
  callValues = 0
  walk = 0
  marks = 0
  readonly #context: BodyContext
  readonly #blocks: BlockStack
  readonly #conditions = new Conditions()
  /** The part of instructions and calls in the cost of optimising. */
  #optimisingCost = 0
  /** Number of bulk instructions, indirect calls, and accesses to tables. */
  #slowPaths = 0
  /** Number of saturating conversions. */
  #saturated = 0
  /** Number of accesses to memory and globals, and of calls. */
  #uses = 0
  /** Number of `select`. */
  #selects = 0

  constructor(context: BodyContext, reader: ByteReader) {
    this.#context = context
    this.#blocks = new BlockStack(reader)
  }

  get nesting(): number {
    return this.#blocks.nesting
  }

  get stackValues(): number {
    return this.#blocks.stackValues
  }

  get work(): number {
    return this.#blocks.work
  }

  get joins(): number {
    return this.#blocks.joins
  }

  get loopJoins(): number {
    return this.#blocks.loopJoins
  }

  get loopBytes(): number {
    return this.#blocks.loopBytes
  }

  get optimisingCost(): number {
    return optimisingCostOf(this.#blocks, this.#conditions, {
      instructions: this.#optimisingCost,
      slowPaths: this.#slowPaths,
      saturated: this.#saturated,
      uses: this.#uses,
      selects: this.#selects,
      walk: this.walk,
    })
  }

  /**
   * Adds the figures of the last function to the sums.
   *
   * @param before - Figures of the same function that the sums contain already, if it was rewritten. Default: none.
   * @throws {@link PluginTooComplexError} if it exceeds a limit.
   */
  count(counter: FigureCounter, where: string, before = NONE): void {
    counter.found('nesting', this.nesting, where)
    counter.found('stackValues', this.stackValues, where)
    counter.found('branchTargets', this.branchTargets, where)
    counter.found('functionWork', this.work, where)
    counter.count('allWork', this.work - before.work, 'the module')
    counter.found('loopBytes', this.loopBytes, where)
    counter.found('callValues', this.callValues, where)
    counter.count('allCallValues', this.callValues - before.callValues, 'the module')
    counter.found('joins', this.joins, where)
    counter.found('loopJoins', this.loopJoins, where)
    counter.found('walk', this.walk, where)
    counter.found('optimisingCost', this.optimisingCost, where)
    counter.count('allOptimisingCost', this.optimisingCost - before.optimisingCost, 'the module')
  }

  /**
   * Reads the instructions of a function.
   *
   * @param reader - Positioned after the locals, and ends with the function.
   * @param locals - Their number, including parameters.
   * @param results - Their number.
   * @throws {@link PluginInvalidError} if it is not valid.
   */
  read(reader: ByteReader, locals: number, results: number): void {
    const blocks = this.#blocks
    const { types, functions, imported, tags } = this.#context
    let walk = 0
    let marks = 0
    let bytes = 0
    let slowPaths = 0
    let uses = 0
    /** The local that the last instructions put on the stack, and where they end. */
    let local = 0
    let localEnd = -1
    this.branchTargets = this.callValues = this.marks = 0
    this.#optimisingCost = this.#saturated = this.#selects = 0
    const conditions = this.#conditions
    conditions.begin(locals)
    blocks.begin(reader, locals, results)
    while (blocks.depth > 0) {
      const start = reader.at
      let code = reader.byte()
      if (code >= FIRST_PREFIX) code = codeOf(code, reader.u32())
      walk += locals + blocks.height
      marks |= MARKS[code] ?? 0
      bytes += OPTIMISING_COST[code] ?? 0
      if (SLOW_PATH[code] === 1) {
        slowPaths++
        blocks.isAppended = true
      }
      blocks.operate(OPERATIONS[code] ?? 0)
      const pops = POPS[code] ?? 0
      if (pops > 0) blocks.pop(pops)
      switch (ACTION_OF[code]) {
        case ACTION.nothing:
          if (code === CODE.equalZero || code === CODE.nop) {
            if (localEnd === start) localEnd = reader.at
            if (blocks.joinEnd === start) blocks.joinEnd = reader.at
          } else if (code === CODE.select) this.#selects++
          else if (code >= CODE.firstSaturating && code <= CODE.lastSaturating) this.#saturated++
          break
        case ACTION.number:
          if (code === CODE.localGet) {
            local = reader.u32()
            localEnd = reader.at
          } else {
            if (code !== CODE.constant) uses++ // globals, and the size of the memory
            reader.skipNumber()
          }
          break
        case ACTION.set:
          blocks.sets++
          local = reader.u32()
          localEnd = reader.at
          conditions.set(local, start)
          break
        case ACTION.access:
          uses++
          skipAccess(reader)
          break
        case ACTION.end:
          blocks.close()
          break
        case ACTION.block:
          this.#open(reader, OPENED_BY.block)
          break
        case ACTION.loop:
          this.#open(reader, OPENED_BY.loop)
          break
        case ACTION.if:
          conditions.add(blocks, localEnd === start ? local : undefined, start)
          this.#open(reader, OPENED_BY.if)
          break
        case ACTION.else:
          if (blocks.openedBy !== OPENED_BY.if) reader.fail('an else belongs to no if')
          blocks.reopen(OPENED_BY.block, blocks.params)
          break
        case ACTION.branch:
          blocks.branch(reader.u32(), start)
          blocks.place()
          blocks.stop()
          break
        case ACTION.branchIf:
          conditions.add(blocks, localEnd === start ? local : undefined, start)
          blocks.branch(reader.u32(), start, true)
          blocks.place()
          break
        case ACTION.branchTable: {
          const targets = reader.u32()
          conditions.count++
          for (let left = targets; left >= 0; left--) blocks.branch(reader.u32(), start)
          if (targets > this.branchTargets) this.branchTargets = targets
          bytes += targets * OPTIMISING.target
          blocks.place(targets + 1)
          blocks.stop()
          break
        }
        case ACTION.return:
          this.callValues += results
          blocks.exit()
          break
        case ACTION.call: {
          uses++
          const index = reader.u32()
          if (index < imported) {
            marks |= MARK.callsImport
            bytes += OPTIMISING.imported
          }
          this.#call(reader, functions[index] ?? -1, false)
          break
        }
        case ACTION.returnCall:
          this.#call(reader, functions[reader.u32()] ?? -1, true)
          break
        case ACTION.callIndirect: {
          const type = reader.u32()
          reader.u32() // table
          this.#call(reader, type, false)
          break
        }
        case ACTION.returnCallIndirect: {
          const type = reader.u32()
          reader.u32() // table
          this.#call(reader, type, true)
          break
        }
        case ACTION.callRef:
          this.#call(reader, reader.u32(), false)
          break
        case ACTION.returnCallRef:
          this.#call(reader, reader.u32(), true)
          break
        case ACTION.heapType:
          marks |= heapMark(reader)
          break
        case ACTION.select:
          this.#selects++
          if (reader.u32() !== 1) reader.fail('a select does not have exactly one type')
          if (readValueType(reader).kind === 'collected') marks |= MARK.collected
          break
        case ACTION.unreachable:
          blocks.exit()
          break
        case ACTION.try:
          this.#open(reader, OPENED_BY.try)
          break
        case ACTION.catch: {
          this.#endTry(reader)
          blocks.handle()
          const type = tags[reader.u32()] ?? -1
          if (!types.isFunction(type)) reader.fail('it catches a missing tag')
          blocks.reopen(OPENED_BY.catch, types.params(type))
          blocks.place()
          break
        }
        case ACTION.catchAll:
          this.#endTry(reader)
          blocks.reopen(OPENED_BY.block, 0)
          blocks.place()
          break
        case ACTION.delegate:
          if (blocks.openedBy !== OPENED_BY.try) reader.fail('a delegate belongs to no try')
          reader.u32()
          blocks.close()
          break
        case ACTION.tryTable:
          this.#tryTable(reader)
          break
        case ACTION.throw: {
          const type = tags[reader.u32()] ?? -1
          if (!types.isFunction(type)) reader.fail('it throws a missing tag')
          this.callValues += types.params(type)
          blocks.mayThrow()
          blocks.pop(types.params(type))
          blocks.exit()
          break
        }
        case ACTION.rethrow:
          reader.u32()
          blocks.mayThrow()
          blocks.exit()
          break
        case ACTION.throwRef:
          blocks.mayThrow()
          blocks.exit()
          break
        case ACTION.branchCast:
          if (reader.byte() > 3) reader.fail('it has a cast of an unknown kind')
          blocks.branch(reader.u32(), start)
          blocks.place()
          readHeapType(reader)
          readHeapType(reader)
          break
        case ACTION.structNew: {
          const type = reader.u32()
          this.callValues += types.fields(type)
          blocks.pop(types.fields(type))
          break
        }
        case ACTION.arrayFixed: {
          reader.u32() // type
          const count = reader.u32()
          this.callValues += count
          blocks.pop(count)
          break
        }
        default:
          skipImmediates(reader, code)
      }
      const pushes = PUSHES[code] ?? 0
      if (pushes > 0) blocks.push(pushes)
    }
    if (!reader.done) reader.fail('a function continues after its end')
    this.walk = walk
    this.#optimisingCost += bytes
    this.#slowPaths = slowPaths
    this.#uses = uses
    this.marks |= marks
  }

  #open(reader: ByteReader, openedBy: number): void {
    const { types } = this.#context
    this.#blocks.place()
    const code = reader.peek()
    if (code === NO_RESULT) {
      reader.skip(1)
      this.#blocks.open(openedBy, 0, 0)
    } else if (code > NO_RESULT && code < 0x80) {
      if (readValueType(reader).kind === 'collected') this.marks |= MARK.collected
      this.#blocks.open(openedBy, 0, 1)
    } else {
      const type = reader.s33()
      // V8 also accepts the type without a result in a longer encoding.
      if (type !== NO_RESULT - 0x80 && !types.isFunction(type)) reader.fail('a block has an unknown type')
      this.#blocks.open(openedBy, types.params(type), types.results(type))
    }
  }

  #call(reader: ByteReader, type: number, isLast: boolean): void {
    const { types } = this.#context
    if (!types.isFunction(type)) reader.fail('it calls a type that is not a function')
    const [params, results] = [types.params(type), types.results(type)]
    const values = params + results
    this.callValues += values
    this.#blocks.operate(values)
    this.#optimisingCost +=
      values * OPTIMISING.callValue + Math.max(0, values - OPTIMISING.registers) * OPTIMISING.stackValue
    this.#blocks.mayThrow()
    this.#blocks.pop(params)
    if (isLast) this.#blocks.exit()
    else this.#blocks.push(results)
  }

  /** The body of a legacy `try` ends with `catch`. */
  #endTry(reader: ByteReader): void {
    const { openedBy } = this.#blocks
    if (openedBy !== OPENED_BY.try && openedBy !== OPENED_BY.catch) reader.fail('a catch belongs to no try')
  }

  #tryTable(reader: ByteReader): void {
    const blocks = this.#blocks
    // The type comes first, then the catch clauses, which are outside of the block.
    this.#open(reader, OPENED_BY.tryTable)
    const handlers = reader.u32()
    for (let left = handlers; left > 0; left--) {
      blocks.handle()
      if (readHandlerKind(reader) < 2) reader.u32()
      blocks.branch(reader.u32() + 1, reader.at) // counted from outside of the block
    }
    blocks.place(handlers)
  }
}

function heapMark(reader: ByteReader): number {
  return readHeapType(reader).kind === 'collected' ? MARK.collected : 0
}

const NONE: Pick<BodyFigures, 'work' | 'callValues' | 'optimisingCost'> = {
  work: 0,
  callValues: 0,
  optimisingCost: 0,
}
