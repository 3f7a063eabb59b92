import type { BlockStack } from './block-stack.ts'
import type { Conditions } from './conditions.ts'
import { ACTION, ACTION_OF, CODE, range } from './instructions.ts'

/*
 * An estimate of what V8's optimising compiler takes for a function. A unit is a byte of memory or 2 ns of CPU, of which the
 * larger counts, in Node.js 20 or 24. Each number was measured over functions of one kind, or found by a search over random
 * ones: `npx tsx scripts/compile-cost.ts` does so again.
 */

/** The cost of each instruction, with those that get its operands, by code. The default is that of arithmetic. */
export const OPTIMISING_COST: Readonly<Uint16Array> = new Uint16Array(ACTION_OF.length).fill(600)

/** What is not counted by instruction. */
export const OPTIMISING = {
  /** A call of an import, in addition to a call. */
  imported: 4_500,
  /** A parameter or result of a call. */
  callValue: 150,
  /** A parameter or result in memory: a call has more than {@link registers}. */
  stackValue: 1_100,
  registers: 12,
  /** A target of a `br_table`. */
  target: 1_300,
  /** Node.js 24: a local at a branch, or where a block begins or ends. */
  place: 12,
  /** Node.js 20: a value that differs where branches meet. */
  join: 76,
  /** Node.js 20: the same, for each loop of the function. */
  loopsAndJoin: 4,
  loopJoin: 450,
  /** The same, once for all branches. */
  phi: 400,
  /** The square of their number, for each block. */
  phiSquares: 3,
  /** The same, for each branch. */
  moveSquares: 0.15,
  /** A call in a `try`, and each local that may have changed before it. */
  throwing: 6_000,
  thrown: 600,
  /** The square of the number of these locals, for each call. */
  thrownSquares: 18,
  /** Node.js 24, for the square of the number of calls in a `try`. */
  throwSquares: 40,
  /** For the square of the number of branches to a loop. */
  backBranches: 80,
  /** Node.js 24, for the square of the number of branches to the end of a block. */
  endBranches: 90,
  /** Node.js 20, for each branch to the end of a block with results, and each branch of the function. */
  resultBranches: 60,
  /** A factor for the square of the number of `catch` of one `try`. */
  handlers: 50,
  /**
   * Node.js 24, for the square of the number of conditions, one after another, that are values which branches bring: it
   * copies the block of each for each way that leads to it.
   */
  joinedConditions: 140,
  /**
   * Node.js 24, for each operation in code that is appended to the block before it, and each way to the end of the
   * block around it: the largest such product.
   */
  appendedWays: 11,
  /* Of time, not of memory. */
  /** Node.js 20, for the square of the number of branches. */
  branches: 15,
  /** For the square of the number of accesses to memory and globals, and of calls. */
  uses: 0.07,
  /** Node.js 20, for the square of the number of `select`. */
  selects: 0.1,
  /** Node.js 20, for each saturating conversion and branch; with each loop, too; and with the square of other paths. */
  saturatedBranches: 60,
  saturatedLoops: 4.7,
  saturatedPaths: 0.2,
  /** For the square of the number of bulk instructions, indirect calls, and accesses to tables. */
  slowPaths: 20,
  /** Node.js 24, for the square of the number of operations. */
  operations: 0.004,
  /** A value, a local or one on the stack, at each instruction. */
  walk: 0.4,
  /** The square of the most blocks in one another. */
  nesting: 1,
  /** Node.js 24, for each byte of a loop, again for each loop around it. */
  loopByte: 70,
  /** The same, multiplied by the most loops in one another. */
  nestedLoopByte: 3,
  /** Node.js 24, for the square of the number of conditions whose value is known. */
  repeatedConditions: 11,
} as const

const CONTROL: ReadonlySet<number> = new Set([
  ...[
    ACTION.end,
    ACTION.else,
    ACTION.block,
    ACTION.loop,
    ACTION.set,
    ACTION.if,
    ACTION.branch,
    ACTION.branchIf,
    ACTION.branchTable,
    ACTION.return,
  ],
  ...[ACTION.unreachable, ACTION.try, ACTION.catch, ACTION.catchAll, ACTION.delegate, ACTION.tryTable],
])

function cost(bytes: number, codes: readonly number[]): void {
  for (const code of codes) (OPTIMISING_COST as Uint16Array)[code] = bytes
}

function costOf(bytes: number, ...actions: readonly number[]): void {
  for (const [code, action] of ACTION_OF.entries()) if (actions.includes(action)) cost(bytes, [code])
}

costOf(50, ACTION.end, ACTION.else, ACTION.block, ACTION.set, ACTION.number, ACTION.bytes4, ACTION.bytes8)
costOf(1_350, ACTION.access, ACTION.accessLane, ACTION.bytes16, ACTION.lane)
costOf(
  3_000,
  ACTION.if,
  ACTION.branch,
  ACTION.branchIf,
  ACTION.branchTable,
  ACTION.return,
  ACTION.unreachable,
  ACTION.select,
)
costOf(65_000, ACTION.loop)
costOf(15_000, ACTION.try, ACTION.catch, ACTION.catchAll, ACTION.delegate, ACTION.tryTable)
costOf(9_000, ACTION.throw, ACTION.rethrow, ACTION.throwRef)
costOf(2_000, ACTION.call)
costOf(4_000, ACTION.returnCall)
costOf(7_500, ACTION.callIndirect, ACTION.returnCallIndirect)
costOf(12_000, ACTION.callRef, ACTION.returnCallRef)
cost(100, [CODE.nop, CODE.drop])
cost(900, [CODE.globalGet, CODE.globalSet])
cost(12_000, [CODE.tableGet])
cost(3_000, [CODE.tableSet])
cost(9_000, [CODE.functionReference])
cost(600, [CODE.memorySize])
cost(2_500, [CODE.memoryGrow])
cost(5_000, [...range(0x6d, 0x70), ...range(0x7f, 0x82)]) // division and remainder of integers
cost(4_500, [...range(0x96, 0x98), ...range(0xa4, 0xa6)]) // minimum, maximum and sign of floats
cost(3_000, range(0xa8, 0xb1)) // conversions of floats to integers
cost(12_000, range(0x200, 0x207)) // the same, saturating
cost(20_000, range(0x208, 0x211)) // memory and tables in bulk, and the call before each: see terminable.ts
cost(1_600, range(0x30d, 0x4ff)) // vectors
cost(12_000, range(0x500, 0x502)) // notify and wait
cost(4_500, range(0x510, 0x54e)) // atomic accesses

/** 1 for each code of an instruction with a slow path, whose number counts by its square. */
export const SLOW_PATH: Readonly<Uint8Array> = new Uint8Array(ACTION_OF.length)

for (const code of [CODE.tableGet, CODE.tableSet, CODE.memoryGrow, ...range(CODE.memoryInit, CODE.tableFill)])
  (SLOW_PATH as Uint8Array)[code] = 1
for (const [code, action] of ACTION_OF.entries())
  if (action === ACTION.callIndirect || action === ACTION.returnCallIndirect)
    (SLOW_PATH as Uint8Array)[code] = 1

/** For each code: the operations of Node.js 24 that have a value. */
export const OPERATIONS: Readonly<Uint8Array> = Uint8Array.from(OPTIMISING_COST, (bytes, code) => {
  if (code === CODE.localGet || CONTROL.has(ACTION_OF[code] ?? ACTION.nothing)) return 0
  return Math.ceil(bytes / 600)
})

/** What a function has besides its blocks and conditions. */
interface OtherFigures {
  /** The part of instructions and calls in the cost. */
  readonly instructions: number
  /** Number of bulk instructions, indirect calls, and accesses to tables. */
  readonly slowPaths: number
  /** Number of saturating conversions. */
  readonly saturated: number
  /** Number of accesses to memory and globals, and of calls. */
  readonly uses: number
  /** Number of `select`. */
  readonly selects: number
  /** All locals and the stack, summed over all instructions. */
  readonly walk: number
}

/** The cost of a function. */
export function optimisingCostOf(
  blocks: BlockStack,
  conditions: Conditions,
  { instructions, slowPaths, saturated, uses, selects, walk }: OtherFigures,
): number {
  const branches = conditions.count
  const paths = branches + slowPaths + blocks.throwing
  return Math.ceil(
    instructions +
      blocks.work * OPTIMISING.place +
      blocks.joins * (OPTIMISING.join + blocks.loops * OPTIMISING.loopsAndJoin) +
      blocks.phis * OPTIMISING.phi +
      blocks.phiSquares * OPTIMISING.phiSquares +
      blocks.moveSquares * OPTIMISING.moveSquares +
      blocks.loopJoins * OPTIMISING.loopJoin +
      blocks.throwing * OPTIMISING.throwing +
      blocks.thrown * OPTIMISING.thrown +
      blocks.thrownSquares * OPTIMISING.thrownSquares +
      blocks.throwSquares * OPTIMISING.throwSquares +
      blocks.backBranches * OPTIMISING.backBranches +
      blocks.endBranches * OPTIMISING.endBranches +
      blocks.resultBranches * branches * OPTIMISING.resultBranches +
      blocks.handlers * OPTIMISING.handlers +
      // The former in Node.js 24, the latter in Node.js 20.
      Math.max(blocks.appendedWays * OPTIMISING.appendedWays, branches ** 2 * OPTIMISING.branches) +
      conditions.joinedSquares * OPTIMISING.joinedConditions +
      conditions.repeated ** 2 * OPTIMISING.repeatedConditions +
      slowPaths ** 2 * OPTIMISING.slowPaths +
      uses ** 2 * OPTIMISING.uses +
      selects ** 2 * OPTIMISING.selects +
      blocks.operations ** 2 * OPTIMISING.operations +
      walk * OPTIMISING.walk +
      blocks.nesting ** 2 * OPTIMISING.nesting +
      saturated * (branches + saturated) * OPTIMISING.saturatedBranches +
      saturated * branches * blocks.loops * OPTIMISING.saturatedLoops +
      saturated * paths ** 2 * OPTIMISING.saturatedPaths +
      blocks.loopBytes * (OPTIMISING.loopByte + blocks.loopNesting * OPTIMISING.nestedLoopByte),
  )
}
