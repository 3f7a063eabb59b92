import { leb } from './binary.ts'
import type { Rewrite } from './code-rewriter.ts'
import { constant, I32, OPCODE } from './opcodes.ts'

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
  const size = [OPCODE.globalGet, ...leb(globals.pages)]
  const grow = growCode(globals, maximum)
  let left = MOST_PLACES
  return ({ opcode }) => {
    if (opcode !== OPCODE.memorySize && opcode !== OPCODE.memoryGrow) return undefined
    if (left-- === 0) return null
    return opcode === OPCODE.memorySize ? size : grow
  }
}

/** Allocators have a handful; whoever has more wants to see what a module can be blown up to. */
const MOST_PLACES = 1_000

/** What stands for `memory.grow`: code, not a call, so that no function and no type has to be added. */
function growCode(globals: PageGlobals, maximum: number): readonly number[] {
  const { block, if: when, end, branchIf, drop, globalGet, globalSet } = OPCODE
  const { memorySize, memoryGrow, add, subtract, equal, greaterUnsigned, noResult } = OPCODE
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
    ...[...wanted, ...real, greaterUnsigned, when, noResult, ...refusal],
    ...[...wanted, ...real, subtract, memoryGrow, 0, ...refusal, equal, branchIf, 1],
    ...[drop, end, drop],
    // pages, which then is what was wanted
    ...[...getPages, ...wanted, globalSet, ...pages, end],
  ]
}
