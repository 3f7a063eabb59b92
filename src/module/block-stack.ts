import type { ByteReader } from './bytes.ts'

/** The kinds of instructions that open a block. */
export const OPENED_BY = { function: 0, block: 1, loop: 2, if: 3, try: 4, catch: 5, tryTable: 6 } as const

/**
 * The open blocks of a function, the number of values on its stack, and the resulting compilation cost. Its lists are
 * reused from one function to the next.
 */
export class BlockStack {
  /** Open blocks, including the function itself. */
  depth = 0
  /** Values on the stack. */
  height = 0
  /** Number of instructions that set locals. */
  sets = 0
  /** Number of loops. */
  loops = 0
  /** Number of operations that have a value. */
  operations = 0
  /** The most loops in one another. */
  loopNesting = 0

  /* Figures: see `BodyFigures`. */
  nesting = 0
  stackValues = 0
  work = 0
  joins = 0
  loopJoins = 0
  loopBytes = 0
  /** Values that may differ at the ends of blocks. */
  phis = 0
  /** Squares of their numbers, for each block. */
  phiSquares = 0
  /** The same, for each branch. */
  moveSquares = 0
  /** Squares of the numbers of branches to loops. */
  backBranches = 0
  /** Number of branches to the ends of blocks with results. */
  resultBranches = 0
  /** Squares of the numbers of instructions that branch to the end of a block. */
  endBranches = 0
  /** Squares of the numbers of clauses that catch, for each block. */
  handlers = 0
  /** Instructions that may branch to a catching block. */
  throwing = 0
  /** Squares of their numbers, for each such block. */
  throwSquares = 0
  /** Locals that may have changed before them, since the outermost catching block began. */
  thrown = 0
  /** Squares of their numbers, for each such instruction. */
  thrownSquares = 0

  /**
   * Whether only one way leads to the end of the block that ended last, and no branch followed: Node.js 24 appends the
   * code after such an end to the block.
   */
  isAppended = false
  /** The most ways to a label, multiplied by the operations in its block that are in such code. */
  appendedWays = 0

  /* The last join, which is the end of a block to which branches lead. */
  /** Where its block begins. */
  joinStart = 0
  /** Where its block ends; 0: there is none since the last condition. */
  joinEnd = 0
  /** Whether its block has results. */
  joinsResults = false

  #reader: ByteReader
  /** Number of locals, including parameters. */
  #locals = 0
  /** Values on the stack below the innermost block. */
  #base = 0
  /** Whether this position is unreachable: the stack may then hold anything. */
  #isUnreachable = false
  /** Number of appended operations where a block began or ended last, or code branched. */
  #appendedBeforePart = 0
  /** Number of operations in appended code. */
  #appended = 0
  /** Number of open loops. */
  #loopDepth = 0
  /** Number of open blocks that catch. */
  #tries = 0
  /** Number of local sets before the outermost of them. */
  #setsBeforeTry = 0

  /* One entry for each open block. */
  /** One of {@link OPENED_BY}, with {@link IN_UNREACHABLE}. */
  #openedBy = new Uint8Array(FIRST_BLOCKS)
  #bases = new Int32Array(FIRST_BLOCKS)
  #params = new Int32Array(FIRST_BLOCKS)
  #results = new Int32Array(FIRST_BLOCKS)
  #starts = new Int32Array(FIRST_BLOCKS)
  /** Number of local sets before it. */
  #setsBefore = new Int32Array(FIRST_BLOCKS)
  /** Number of branches to its label. */
  #branches = new Int32Array(FIRST_BLOCKS)
  /** Number of instructions that branch to its label, and the place of the last one. */
  #sources = new Int32Array(FIRST_BLOCKS)
  #branchedAt = new Int32Array(FIRST_BLOCKS)
  /** Number of its clauses that catch. */
  #handlers = new Int32Array(FIRST_BLOCKS)
  /** Number of those that are of a `br_if` or `br_table`: V8 appends nothing there. */
  #conditional = new Int32Array(FIRST_BLOCKS)
  /** Number of operations in appended code before it. */
  #appendedBefore = new Int32Array(FIRST_BLOCKS)
  /** The same before the first branch to its label. */
  #appendedAtFirst = new Int32Array(FIRST_BLOCKS)
  /** The same before the last branch from inside of it to an outer block. */
  #appendedAtLeave = new Int32Array(FIRST_BLOCKS)
  /** The innermost block around it that catches, or itself; -1: there is none. */
  #catchers = new Int32Array(FIRST_BLOCKS)
  /** Number of operations before it. */
  #operationsBefore = new Int32Array(FIRST_BLOCKS)
  /** Number of instructions in it that may throw to its clauses. */
  #throws = new Int32Array(FIRST_BLOCKS)
  /** The outermost block to which it branches. */
  #outermost = new Int32Array(FIRST_BLOCKS)

  /** @param reader - Fails if a function is not valid. */
  constructor(reader: ByteReader) {
    this.#reader = reader
  }

  /** Begins a function. @param locals - Their number, including parameters. */
  begin(reader: ByteReader, locals: number, results: number): void {
    this.#reader = reader
    this.#locals = locals
    this.depth = this.height = this.#base = this.#tries = 0
    this.sets = this.loops = this.loopNesting = this.#loopDepth = this.operations = 0
    this.nesting = this.stackValues = this.work = this.joins = this.loopJoins = this.loopBytes = 0
    this.phis = this.phiSquares = this.moveSquares = this.joinStart = this.joinEnd = 0
    this.backBranches = this.endBranches = this.resultBranches = this.handlers = 0
    this.throwing = this.throwSquares = this.thrown = this.thrownSquares = 0
    this.#appended = this.appendedWays = this.#appendedBeforePart = 0
    this.#isUnreachable = this.isAppended = false
    this.open(OPENED_BY.function, 0, results)
  }

  /** The instruction that opened the innermost block. */
  get openedBy(): number {
    return (this.#openedBy[this.depth - 1] ?? 0) & ~IN_UNREACHABLE
  }

  /** Number of parameters of the innermost block. */
  get params(): number {
    return this.#params[this.depth - 1] ?? 0
  }

  /** So many operations with a value follow. */
  operate(count: number): void {
    this.operations += count
    if (this.isAppended) this.#appended += count
  }

  pop(count: number): void {
    this.height -= count
    if (this.height >= this.#base) return
    if (!this.#isUnreachable) this.#reader.fail('an instruction finds too few values on the stack')
    this.height = this.#base
  }

  push(count: number): void {
    this.height += count
    if (this.height > this.stackValues) this.stackValues = this.height
  }

  /** Marks the rest of the block as unreachable. */
  stop(): void {
    this.#isUnreachable = true
    this.height = this.#base
  }

  /** As {@link stop}, where the function ends: the operations since the last branch or block lead to no other code. */
  exit(): void {
    if (this.#tries === 0) this.#appended = this.#appendedBeforePart
    this.stop()
  }

  /** Adds the cost of placing all values, this many times: at a branch, and at the start and the end of a block. */
  place(times = 1): void {
    this.work += times * (this.#locals + this.height)
  }

  /** An instruction that can throw may branch to a catching block. */
  mayThrow(): void {
    if (this.#tries === 0) return
    this.place()
    this.throwing++
    const thrown = Math.min(this.#locals, this.sets - this.#setsBeforeTry)
    this.thrown += thrown
    this.thrownSquares += thrown * thrown
    const catcher = this.#catchers[this.depth - 1] ?? -1
    const throws = (this.#throws[catcher] ?? 0) + 1
    this.#throws[catcher] = throws
    this.throwSquares += 2 * throws - 1
    const operations = this.operations - (this.#operationsBefore[catcher] ?? 0)
    this.appendedWays = Math.max(this.appendedWays, throws * operations)
    this.isAppended = true
  }

  open(openedBy: number, params: number, results: number): void {
    this.pop(params)
    const { depth } = this
    if (depth === this.#openedBy.length) this.#grow()
    this.#openedBy[depth] = this.#isUnreachable ? openedBy | IN_UNREACHABLE : openedBy
    this.#bases[depth] = this.height
    this.#params[depth] = params
    this.#results[depth] = results
    this.#starts[depth] = this.#reader.at
    this.#setsBefore[depth] = this.sets
    this.#branches[depth] = openedBy === OPENED_BY.if ? 1 : 0
    this.#operationsBefore[depth] = this.operations
    this.#conditional[depth] = this.#sources[depth] = this.#branchedAt[depth] = 0
    this.#outermost[depth] = depth
    this.#appendedAtFirst[depth] = this.#appendedAtLeave[depth] = this.#appended
    this.#appendedBefore[depth] = this.#appended
    this.#appendedBeforePart = this.#appended
    if (openedBy !== OPENED_BY.block) this.isAppended = false
    if (openedBy === OPENED_BY.loop && ++this.#loopDepth > this.loopNesting)
      this.loopNesting = this.#loopDepth
    this.depth++
    if (this.depth > this.nesting) this.nesting = this.depth
    this.#handlers[depth] = 0
    if (openedBy === OPENED_BY.try || openedBy === OPENED_BY.tryTable) {
      if (this.#tries++ === 0) this.#setsBeforeTry = this.sets
      this.#catchers[depth] = depth
      this.#throws[depth] = 0
    } else this.#catchers[depth] = depth > 0 ? (this.#catchers[depth - 1] ?? -1) : -1
    this.#isUnreachable = false // the stack is valid again in this block
    this.#base = this.height
    this.push(params)
  }

  /** Begins the next part of the innermost block, such as `else` or `catch`, with these values on the stack. */
  reopen(openedBy: number, values: number): void {
    this.#finish()
    if (this.openedBy === OPENED_BY.try) this.#tries--
    const top = this.depth - 1
    this.#openedBy[top] = openedBy | ((this.#openedBy[top] ?? 0) & IN_UNREACHABLE)
    this.#catchers[top] = top > 0 ? (this.#catchers[top - 1] ?? -1) : -1
    this.#isUnreachable = this.isAppended = false
    this.#appendedBeforePart = this.#appended
    this.height = this.#base
    this.push(values)
  }

  /** The innermost block has one more clause that catches: the squares of n numbers are 1 + 3 + 5 and so on. */
  handle(): void {
    const top = this.depth - 1
    const before = this.#handlers[top] ?? 0
    this.handlers += 2 * before + 1
    this.#handlers[top] = before + 1
  }

  close(): void {
    this.#finish()
    const top = this.depth - 1
    const { openedBy } = this
    const results = this.#results[top] ?? 0
    const branches = this.#branches[top] ?? 0
    const isLoop = openedBy === OPENED_BY.loop
    const ways = branches + (isLoop || this.#isUnreachable ? 0 : 1)
    this.#forget(top, ways)
    this.#appendedBeforePart = this.#appended
    this.isAppended = isLoop || (ways === 1 && this.#conditional[top] === 0)
    if (isLoop) {
      this.loops++
      this.#loopDepth--
      const operations = this.operations - (this.#operationsBefore[top] ?? 0)
      if (operations <= UNROLLED.operations) this.#appended += UNROLLED.copies * operations
      this.loopBytes += this.#reader.at - (this.#starts[top] ?? 0)
    }
    if (openedBy === OPENED_BY.try || openedBy === OPENED_BY.tryTable) this.#tries--
    if (branches > 0 || isLoop) {
      const changed = Math.min(this.#locals, this.sets - (this.#setsBefore[top] ?? 0))
      if (isLoop) {
        this.loopJoins += (branches + 1) * (changed + (this.#params[top] ?? 0))
        this.backBranches += branches * branches
      } else {
        const sources = this.#sources[top] ?? 0
        this.endBranches += sources ** 2
        if (results > 0) this.resultBranches += sources
        const phis = changed + results
        this.phis += phis
        this.phiSquares += phis * phis
        this.moveSquares += branches * phis * phis
        this.joins += (branches + 1) * phis
        this.joinStart = this.#starts[top] ?? 0
        this.joinEnd = this.#reader.at
        this.joinsResults = results > 0
      }
    }
    this.#isUnreachable = ((this.#openedBy[top] ?? 0) & IN_UNREACHABLE) !== 0
    this.depth = top
    this.height = this.#base
    this.#base = top > 0 ? (this.#bases[top - 1] ?? 0) : 0
    this.push(results)
  }

  /**
   * Counts the ways to the end of a block, or back to its start, with the operations on them. Behind them, only those
   * before the last branch to an outer block matter.
   */
  #forget(top: number, ways: number): void {
    if (ways > 1) {
      const before = this.#appendedBefore[top] ?? 0
      this.appendedWays = Math.max(this.appendedWays, ways * (this.#appended - before))
      const atLeave = (this.#outermost[top] ?? 0) < top ? (this.#appendedAtLeave[top] ?? 0) : before
      this.#appended = Math.max(atLeave, this.#branches[top] ? (this.#appendedAtFirst[top] ?? 0) : before)
    }
    if (top > 0) this.#leave(top - 1, this.#outermost[top] ?? 0, this.#appendedAtLeave[top] ?? 0)
  }

  #leave(block: number, target: number, appended: number): void {
    if (target > block) return
    this.#outermost[block] = Math.min(this.#outermost[block] ?? 0, target)
    if (target < block) this.#appendedAtLeave[block] = Math.max(this.#appendedAtLeave[block] ?? 0, appended)
  }

  /**
   * Records a branch to a label: 0 is the innermost block.
   *
   * @param at - Where the instruction is: it may name a label more than once.
   */
  branch(label: number, at: number, isConditional = false): void {
    if (label >= this.depth) this.#reader.fail('a branch has no target block')
    const block = this.depth - 1 - label
    this.#leave(this.depth - 1, block, this.#appended)
    this.#appendedBeforePart = this.#appended
    if (isConditional) this.#conditional[block] = (this.#conditional[block] ?? 0) + 1
    const branches = this.#branches[block] ?? 0
    if (branches === 0) this.#appendedAtFirst[block] = this.#appended
    this.#branches[block] = branches + 1
    if (this.#branchedAt[block] === at) return
    this.#branchedAt[block] = at
    this.#sources[block] = (this.#sources[block] ?? 0) + 1
  }

  /** Ends a block: exactly its results are on the stack, unless this position is unreachable. */
  #finish(): void {
    const wanted = this.#base + (this.#results[this.depth - 1] ?? 0)
    if (this.#isUnreachable ? this.height > wanted : this.height !== wanted)
      this.#reader.fail('a block ends with other values than its results')
    this.work += this.#locals + wanted
  }

  #grow(): void {
    const openedBy = new Uint8Array(this.#openedBy.length * 2)
    openedBy.set(this.#openedBy)
    this.#openedBy = openedBy
    this.#bases = doubled(this.#bases)
    this.#params = doubled(this.#params)
    this.#results = doubled(this.#results)
    this.#starts = doubled(this.#starts)
    this.#setsBefore = doubled(this.#setsBefore)
    this.#branches = doubled(this.#branches)
    this.#handlers = doubled(this.#handlers)
    this.#conditional = doubled(this.#conditional)
    this.#appendedBefore = doubled(this.#appendedBefore)
    this.#sources = doubled(this.#sources)
    this.#branchedAt = doubled(this.#branchedAt)
    this.#catchers = doubled(this.#catchers)
    this.#operationsBefore = doubled(this.#operationsBefore)
    this.#throws = doubled(this.#throws)
    this.#appendedAtFirst = doubled(this.#appendedAtFirst)
    this.#appendedAtLeave = doubled(this.#appendedAtLeave)
    this.#outermost = doubled(this.#outermost)
  }
}

const FIRST_BLOCKS = 1_024

/** The size of loops whose body Node.js 24 copies so many times. */
const UNROLLED = { operations: 200, copies: 3 } as const

/** Marks a block in unreachable code. */
const IN_UNREACHABLE = 0x40

function doubled(old: Int32Array): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(old.length * 2)
  wider.set(old)
  return wider
}
