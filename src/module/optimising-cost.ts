import { ACTION, CODE, DO, range } from './instructions.ts'

/*
 * An estimate of the memory that V8's optimising compiler takes for a function, in bytes, while it works on it. Each number
 * is the larger one of Node.js 20 and 24, measured over functions of one kind of instruction:
 * `node scripts/compile-cost.mjs` does so again.
 */

/** The cost of each instruction, with those that get its operands, by code. The default is that of arithmetic. */
export const OPTIMISING_BYTES: Readonly<Uint16Array> = new Uint16Array(ACTION.length).fill(600)

/** What is not counted by instruction. */
export const OPTIMISING = {
  /** A call of an import, in addition to a call. */
  imported: 2_500,
  /** A parameter or result of a call. */
  callValue: 150,
  /** A parameter or result in memory: a call has more than {@link registers}. */
  stackValue: 600,
  registers: 12,
  /** A target of a `br_table`. */
  target: 1_300,
  /** Node.js 24: a local at a branch, or where a block begins or ends. */
  place: 12,
  /** Node.js 20: a value that differs where branches meet. */
  join: 76,
  loopJoin: 450,
  /** A call in a `try`, and each local that may have changed before it. */
  throwing: 6_000,
  thrown: 220,
  /** Node.js 20, for the square of the number of branches to a loop. */
  backBranches: 40,
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
  appendedWays: 9.4,
  /** Node.js 20, for the square of the number of branches. */
  branches: 0.28,
  /** Node.js 24, for the square of the number of conditions whose value is known: this is time, not memory. */
  repeatedConditions: 11,
} as const

const CONTROL: ReadonlySet<number> = new Set([
  ...[DO.end, DO.else, DO.block, DO.loop, DO.set, DO.if, DO.branch, DO.branchIf, DO.branchTable, DO.return],
  ...[DO.unreachable, DO.try, DO.catch, DO.catchAll, DO.delegate, DO.tryTable],
])

function cost(bytes: number, codes: readonly number[]): void {
  for (const code of codes) (OPTIMISING_BYTES as Uint16Array)[code] = bytes
}

function costOf(bytes: number, ...actions: readonly number[]): void {
  for (const [code, action] of ACTION.entries()) if (actions.includes(action)) cost(bytes, [code])
}

costOf(50, DO.end, DO.else, DO.block, DO.set, DO.number, DO.bytes4, DO.bytes8)
costOf(1_200, DO.access, DO.accessLane, DO.bytes16, DO.lane)
costOf(3_000, DO.if, DO.branch, DO.branchIf, DO.branchTable, DO.return, DO.unreachable, DO.select)
costOf(65_000, DO.loop)
costOf(15_000, DO.try, DO.catch, DO.catchAll, DO.delegate, DO.tryTable)
costOf(9_000, DO.throw, DO.rethrow, DO.throwRef)
costOf(1_600, DO.call)
costOf(4_000, DO.returnCall)
costOf(7_500, DO.callIndirect, DO.returnCallIndirect)
costOf(12_000, DO.callRef, DO.returnCallRef)
cost(100, [CODE.nop, CODE.drop])
cost(12_000, [CODE.tableGet])
cost(3_000, [CODE.tableSet])
cost(9_000, [CODE.functionReference])
cost(2_500, [CODE.memoryGrow])
cost(5_000, [...range(0x6d, 0x70), ...range(0x7f, 0x82)]) // division and remainder of integers
cost(4_500, [...range(0x96, 0x98), ...range(0xa4, 0xa6)]) // minimum, maximum and sign of floats
cost(3_000, range(0xa8, 0xb1)) // conversions of floats to integers
cost(12_000, range(0x200, 0x207)) // the same, saturating
cost(7_000, range(0x208, 0x211)) // memory and tables in bulk, and the call before each: see terminable.ts
cost(1_600, range(0x30d, 0x4ff)) // vectors
cost(12_000, range(0x500, 0x502)) // notify and wait
cost(4_500, range(0x510, 0x54e)) // atomic accesses

/** For each code: the operations of Node.js 24 that have a value. */
export const OPERATIONS: Readonly<Uint8Array> = Uint8Array.from(OPTIMISING_BYTES, (bytes, code) => {
  if (code === CODE.localGet || CONTROL.has(ACTION[code] ?? DO.nothing)) return 0
  return Math.ceil(bytes / 600)
})
