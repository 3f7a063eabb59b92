import { leb } from './bytes.ts'
import type { Instruction, Rewrite, Temporaries } from './code-rewriter.ts'
import { CODE, constant, NO_RESULT, skipAlignment } from './instructions.ts'
import { F32, F64, I32, I64, V128 } from './types.ts'

/** Globals in which a module counts the pages of its memory. */
export interface PageGlobals {
  /** The pages that it may know of. */
  readonly pages: number
  /** Holds a number while it grows. */
  readonly more: number
}

/**
 * Makes a module count the pages of its memory, so that it can be given back one that has grown: a memory cannot shrink.
 * `memory.size` and `memory.grow` answer as for a new memory, and the real one grows only if it is too small.
 *
 * One thing differs: an access behind the end, but within the real memory, does not trap.
 *
 * @param maximum - Most pages.
 */
export function countPages(globals: PageGlobals, maximum: number): Rewrite {
  const size = [CODE.globalGet, ...leb(globals.pages)]
  const grow = growCode(globals, maximum)
  let left = MOST_SIZES
  return ({ code }) => {
    if (code !== CODE.memorySize && code !== CODE.memoryGrow) return undefined
    if (left-- === 0) return null
    return code === CODE.memorySize ? size : grow
  }
}

/** Allocators have a handful. A module with more is made to see how large its form can get. */
const MOST_SIZES = 1_000

/** What stands for `memory.grow`: code, not a call, so that no function and no type has to be added. */
function growCode(globals: PageGlobals, maximum: number): readonly number[] {
  const { block, if: when, end, branchIf, drop, globalGet, globalSet } = CODE
  const { memorySize, memoryGrow, add, subtract, equal, greaterUnsigned } = CODE
  const [pages, more] = [leb(globals.pages), leb(globals.more)]
  const [getPages, getMore, real] = [
    [globalGet, ...pages],
    [globalGet, ...more],
    [memorySize, 0],
  ]
  const wanted = [...getPages, ...getMore, add]
  const refusal = constant(-1)
  return [
    ...[globalSet, ...more],
    ...[block, I32, ...refusal],
    // if more > maximum - pages: -1
    ...[...getMore, ...constant(maximum), ...getPages, subtract, greaterUnsigned, branchIf, 0],
    // if wanted > real: if memory.grow(wanted - real) == -1: -1
    ...[...wanted, ...real, greaterUnsigned, when, NO_RESULT, ...refusal],
    ...[...wanted, ...real, subtract, memoryGrow, 0, ...refusal, equal, branchIf, 1],
    ...[drop, end, drop],
    // pages, which then is what was wanted
    ...[...getPages, ...wanted, globalSet, ...pages, end],
  ]
}

/**
 * Makes a module remember the lowest address that it writes, so that what lies below need not be wiped. Worth it where
 * a large stack lies below the data: few calls use more than its end.
 *
 * @param lowest - A global with an address: all that the module writes behind it is not noticed.
 */
export function trackLowest(lowest: number): Rewrite {
  let left = MOST_WRITES
  return (instruction, temporaries) => {
    const types = valuesOf(instruction.code)
    if (!types) return undefined
    if (left-- === 0) return null
    return tracked(instruction, types, lowest, temporaries)
  }
}

/** The form of a module may be about 4 MiB larger for it. */
const MOST_WRITES = 150_000

/** Of the stores, in the order of their codes. */
const STORES: readonly number[] = [I32, I64, F32, F64, I32, I32, I64, I64, I64]

/** Types of what a write takes from the stack above its address; undefined for what is no write. */
function valuesOf(code: number): readonly number[] | undefined {
  if (code <= CODE.lastStore) {
    const store = STORES[code - CODE.firstStore]
    return store === undefined ? undefined : [store]
  }
  if (isFill(code)) return [I32, I32]
  const isLaneStore = code >= CODE.firstLaneStore && code <= CODE.lastLaneStore
  return isLaneStore || code === CODE.vectorStore ? [V128] : undefined
}

/** Whether a part of memory, or of data, is put into a memory, and how much of it. */
function isFill(code: number): boolean {
  return code === CODE.memoryInit || code === CODE.memoryCopy || code === CODE.memoryFill
}

/** What is added to the address, in the only memory: its number may be there all the same. */
function offsetOf(instruction: Instruction): number {
  if (isFill(instruction.code)) return 0
  const reader = instruction.immediates()
  skipAlignment(reader)
  return reader.u32()
}

function tracked(
  instruction: Instruction,
  types: readonly number[],
  lowest: number,
  temporaries: Temporaries,
): readonly number[] {
  const offset = offsetOf(instruction)
  const address = leb(temporaries.local(I32))
  const values = types.map((type, place) => leb(temporaries.local(type, place + 1)))
  // Beyond 32 bits it wraps, and what was to be written traps.
  const target = offset === 0 ? [] : [...constant(offset), CODE.add]
  return [
    ...values.toReversed().flatMap((value) => [CODE.localSet, ...value]),
    ...[CODE.localTee, ...address, ...target, CODE.globalGet, ...leb(lowest), CODE.lessUnsigned],
    ...[CODE.if, NO_RESULT],
    ...[CODE.localGet, ...address, ...target, CODE.globalSet, ...leb(lowest), CODE.end],
    ...[CODE.localGet, ...address],
    ...values.flatMap((value) => [CODE.localGet, ...value]),
    ...instruction.bytes,
  ]
}
