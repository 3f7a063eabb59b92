import { leb } from './bytes.ts'
import { hasMarks, type Instruction, type Rewriter, rewriteCode } from './code-rewriter.ts'
import { ACTION, ACTION_OF, CODE, constant, MARK, MARKS, NO_RESULT } from './instructions.ts'
import { FigureCounter } from './limits.ts'
import { type ModuleView, SECTION } from './module-view.ts'
import { appendItems, withContents } from './module-writer.ts'
import { withCode } from './rewritten-view.ts'
import { FUNCTION_FORM, I32, I64, numberType, sharedTypeKey } from './types.ts'

/*
 * V8 notices that a thread is terminated at the entry of a function, and in a loop of unoptimised code only after
 * thousands of turns. With a large `memory.fill` in each turn, that is minutes. So the length of each bulk instruction
 * passes through a function of ours first.
 *
 * When V8 optimises that function, its entry has to keep the check. V8 omits it from a function that calls no other, and
 * inlines short functions. Therefore the function calls itself if the length is -1, which no memory and no table has.
 */

/**
 * Work that a constant bounds needs no check: thousands of turns of this length take milliseconds. An entry of a table can
 * take a microsecond (Node.js 24), a byte less than a nanosecond.
 */
const MAX_UNCHECKED = { bytes: 4_096, entries: 8 }

/** How a length is compared with -1, and increased, by its type. */
const LENGTHS = [
  { type: I32, minusOne: constant(-1), one: constant(1), equal: CODE.equal, add: CODE.add },
  {
    type: I64,
    minusOne: [CODE.constant64, 0x7f],
    one: [CODE.constant64, 1],
    equal: CODE.equal64,
    add: CODE.add64,
  },
] as const

/**
 * Makes a module whose thread V8 can terminate within milliseconds, although it has bulk instructions.
 *
 * @param view - With parsed code.
 * @returns the same view if the module has no bulk instructions.
 */
export function makeTerminable(view: ModuleView): ModuleView {
  const { name, bodies, indexTypes, functions, processTypes } = view
  if (!bodies?.marks.some((marks) => marks & MARK.bulk)) return view
  const has64 = [...indexTypes.memories, ...indexTypes.tables].includes(I64)
  const lengths = LENGTHS.slice(0, has64 ? 2 : 1)
  const typeIndices = lengths.map((_, place) => view.types.count + place)
  const types = view.types.with(
    lengths.map(({ type }) => ({ params: [numberType(type)], results: [numberType(type)] })),
  )
  const added = lengths.map((length, place) => ({
    bytes: renderCheck(length, functions.length + place),
    rare: [],
  }))
  const signatures = lengths.map(({ type }) => Uint8Array.of(FUNCTION_FORM, 1, type, 1, type))
  const extended = {
    ...view,
    types,
    functions: [...functions, ...typeIndices],
    processTypes: {
      ...processTypes,
      shared: [...new Set([...processTypes.shared, ...signatures.map(sharedTypeKey)])],
    },
  }
  const counter = new FigureCounter('none', name, view.figures)
  const checker = new LengthChecker(view, (_code, isLong) => functions.length + (isLong ? 1 : 0))
  const code = rewriteCode({ ...extended, bodies }, hasMarks(bodies, MARK.bulk), [checker], counter, added)
  if (!code) return view
  const contents = new Map([
    [SECTION.type, appendItems(view, SECTION.type, signatures)],
    [SECTION.function, appendItems(view, SECTION.function, typeIndices.map(leb))],
    ...code.contents,
  ])
  return withCode({ ...extended, bodies, figures: counter.figures }, withContents(view, contents), code)
}

/** A function that returns its argument, and calls itself if that is -1. @param self - Its index. */
function renderCheck({ minusOne, one, equal, add }: (typeof LENGTHS)[number], self: number): Uint8Array {
  const { localGet, if: when, call, drop, end } = CODE
  return Uint8Array.of(
    0, // locals
    ...[localGet, 0, ...minusOne, equal, when, NO_RESULT],
    ...[localGet, 0, ...one, add, call, ...leb(self), drop, end],
    ...[localGet, 0, end],
  )
}

/** Inserts a call before each bulk instruction: its length is on top of the stack. */
export class LengthChecker implements Rewriter {
  readonly #indexTypes: ModuleView['indexTypes']
  readonly #functionFor: (code: number, isLong: boolean) => number
  /** The constant on top of the stack, if the previous instruction was one. A function ends with an `end`, which is none. */
  #constant: number | undefined

  /** @param functionFor - The function that takes and returns the length of an instruction, with 64 bits if it is long. */
  constructor({ indexTypes }: ModuleView, functionFor: (code: number, isLong: boolean) => number) {
    this.#indexTypes = indexTypes
    this.#functionFor = functionFor
  }

  rewrite(instruction: Instruction): readonly number[] | undefined {
    const { code } = instruction
    const length = this.#constant
    this.#constant = code === CODE.constant ? instruction.immediates().s33() >>> 0 : undefined
    if (!((MARKS[code] ?? 0) & MARK.bulk) || (length !== undefined && length <= maxUnchecked(code)))
      return undefined
    const index = this.#functionFor(code, this.#isLong(instruction))
    return [CODE.call, ...leb(index), ...instruction.bytes]
  }

  /** Whether its length has 64 bits: if all memories or tables that it works on have such indices. */
  #isLong(instruction: Instruction): boolean {
    const { code } = instruction
    if (code === CODE.memoryInit || code === CODE.tableInit) return false
    const isOfMemory = code === CODE.memoryGrow || code === CODE.memoryFill || code === CODE.memoryCopy
    const types = isOfMemory ? this.#indexTypes.memories : this.#indexTypes.tables
    const reader = instruction.immediates()
    const indices = ACTION_OF[code] === ACTION.numbers ? [reader.u32(), reader.u32()] : [reader.u32()]
    return indices.every((index) => types[index] === I64)
  }
}

/** The maximum of a constant that needs no check. That of `memory.grow` says nothing about its work. */
function maxUnchecked(code: number): number {
  if (code === CODE.memoryGrow) return -1
  return IN_BYTES.has(code) ? MAX_UNCHECKED.bytes : MAX_UNCHECKED.entries
}

/** Instructions whose length is in bytes. */
export const IN_BYTES: ReadonlySet<number> = new Set([CODE.memoryInit, CODE.memoryCopy, CODE.memoryFill])
