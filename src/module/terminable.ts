import { ByteReader, leb } from './bytes.ts'
import { type Instruction, type Rewriter, rewriteCode } from './code-rewriter.ts'
import { ACTION, CODE, constant, DO, MARK, MARKS, NO_RESULT } from './instructions.ts'
import { FigureCounter } from './limits.ts'
import { findSections } from './module.ts'
import { type FunctionBodies, type ModuleView, SECTION } from './module-view.ts'
import { appendItems, withContents } from './module-writer.ts'
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
  const added = lengths.map((length, place) => renderCheck(length, functions.length + place))
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
  const checker = new LengthChecker(view)
  const code = rewriteCode({ ...extended, bodies }, MARK.bulk, [checker], counter, added)
  if (!code) return view
  const contents = [
    [SECTION.type, appendItems(view, SECTION.type, signatures)],
    [SECTION.function, appendItems(view, SECTION.function, typeIndices.map(leb))],
    [SECTION.code, code],
  ] as const
  const bytes = withContents(view, new Map(contents))
  const sections = findSections(bytes, name)
  const start = sections.find(({ id }) => id === SECTION.code)?.content ?? 0
  const reader = new ByteReader(bytes, start, bytes.length, name)
  return {
    ...extended,
    bytes,
    sections,
    bodies: relocate(bodies, reader),
    figures: counter.figures,
  }
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
class LengthChecker implements Rewriter {
  readonly #indexTypes: ModuleView['indexTypes']
  /** The code of a call, for each of {@link LENGTHS}. */
  readonly #calls: readonly (readonly number[])[]
  /** The constant on top of the stack, if the previous instruction was one. A function ends with an `end`, which is none. */
  #constant: number | undefined

  constructor({ indexTypes, functions }: ModuleView) {
    this.#indexTypes = indexTypes
    this.#calls = LENGTHS.map((_, place) => [CODE.call, ...leb(functions.length + place)])
  }

  rewrite(instruction: Instruction): readonly number[] | undefined {
    const { code } = instruction
    const length = this.#constant
    this.#constant = code === CODE.constant ? instruction.immediates().s33() >>> 0 : undefined
    if (!((MARKS[code] ?? 0) & MARK.bulk) || (length !== undefined && length <= maxUnchecked(code)))
      return undefined
    return [...(this.#calls[this.#isLong(instruction) ? 1 : 0] ?? []), ...instruction.bytes]
  }

  /** Whether its length has 64 bits: if all memories or tables that it works on have such indices. */
  #isLong(instruction: Instruction): boolean {
    const { code } = instruction
    if (code === CODE.memoryInit || code === CODE.tableInit) return false
    const isOfMemory = code === CODE.memoryGrow || code === CODE.memoryFill || code === CODE.memoryCopy
    const types = isOfMemory ? this.#indexTypes.memories : this.#indexTypes.tables
    const reader = instruction.immediates()
    const indices = ACTION[code] === DO.numbers ? [reader.u32(), reader.u32()] : [reader.u32()]
    return indices.every((index) => types[index] === I64)
  }
}

/** The maximum of a constant that needs no check. That of `memory.grow` says nothing about its work. */
function maxUnchecked(code: number): number {
  if (code === CODE.memoryGrow) return -1
  return IN_BYTES.has(code) ? MAX_UNCHECKED.bytes : MAX_UNCHECKED.entries
}

/** Instructions whose length is in bytes. */
const IN_BYTES: ReadonlySet<number> = new Set([CODE.memoryInit, CODE.memoryCopy, CODE.memoryFill])

/** Locates functions again, and those that were added behind them. @param reader - Positioned at the content of the code. */
function relocate(bodies: FunctionBodies, reader: ByteReader): FunctionBodies {
  const count = reader.u32()
  const [starts, ends] = [new Uint32Array(count), new Uint32Array(count)]
  for (let place = 0; place < count; place++) {
    const size = reader.u32()
    starts[place] = reader.at
    reader.skip(size)
    ends[place] = reader.at
  }
  const extend = <List extends Uint32Array | Float64Array | Uint8Array>(
    list: Readonly<List>,
    empty: List,
  ): List => {
    empty.set(list)
    return empty
  }
  return {
    count,
    starts,
    ends,
    locals: extend(bodies.locals, new Uint32Array(count).fill(1)),
    work: extend(bodies.work, new Float64Array(count)),
    optimisingCost: extend(bodies.optimisingCost, new Float64Array(count)),
    marks: extend(bodies.marks, new Uint8Array(count)),
  }
}
