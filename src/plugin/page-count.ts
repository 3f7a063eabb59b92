import { concat, HEADER_BYTES, leb } from './binary.ts'
import { skipImmediates, skipLocals } from './instructions.ts'
import type { MemoryImporter } from './memory-import.ts'
import { countImports } from './module.ts'
import { KIND, Reader, SECTION } from './module-reader.ts'
import { readSections, renderSection } from './sections.ts'

/**
 * Makes a module count the pages of the memory that it imports, so that it can be given one that has grown before: a
 * memory cannot shrink. `memory.size` and `memory.grow` answer as for a new memory, and the real one grows only if it
 * is too small. Two globals come behind those that the module has, so that nothing in it gets another number.
 *
 * One thing differs: an access behind the end, but within the real memory, does not trap.
 *
 * @param module - One that the engine accepts.
 * @param name - The plug-in's, for messages.
 * @returns undefined if its code has an instruction that is not known, or asks for its memory in too many places. It may
 * be more than V8 accepts.
 */
export function countPages({ bytes, limits }: MemoryImporter, name: string): Uint8Array | undefined {
  const sections = readSections(bytes, name)
  const find = (wanted: number) => sections.find(({ id }) => id === wanted)
  const [code, globals] = [find(SECTION.code), find(SECTION.global)]
  if (!code) return bytes

  const known = new Reader(globals?.content ?? Uint8Array.of(0))
  const count = known.u32()
  const pages = countImports(bytes, KIND.global) + count
  const counting = rewriteCode(code.content, {
    size: sizeCode(pages),
    grow: growCode(pages, limits.maximum),
    left: MOST_PLACES,
  })
  if (!counting) return undefined
  const global = renderSection(
    SECTION.global,
    concat([
      leb(count + 2),
      globals?.content.subarray(known.at) ?? new Uint8Array(),
      mutableNumber(limits.initial),
      mutableNumber(0),
    ]),
  )
  const place = globals ?? sections.find(({ id }) => !BEFORE_GLOBALS.has(id))
  const parts = sections.flatMap((each) => [
    ...(each === place ? [global] : []),
    ...(each === globals ? [] : [each === code ? renderSection(SECTION.code, counting) : each.whole]),
  ])
  return concat([bytes.subarray(0, HEADER_BYTES), ...parts])
}

/** Custom sections may be anywhere. */
const BEFORE_GLOBALS = new Set([
  ...[SECTION.custom, SECTION.type, SECTION.import, SECTION.function],
  ...[SECTION.table, SECTION.memory, SECTION.tag],
])

const I32 = 0x7f
const MUTABLE = 1

const OPCODE = {
  block: 0x02,
  if: 0x04,
  end: 0x0b,
  branchIf: 0x0d,
  drop: 0x1a,
  globalGet: 0x23,
  globalSet: 0x24,
  memorySize: 0x3f,
  memoryGrow: 0x40,
  constant: 0x41,
  equal: 0x46,
  greaterUnsigned: 0x4b,
  add: 0x6a,
  subtract: 0x6b,
}
const NO_RESULT = 0x40

/** A global with an initial value. */
function mutableNumber(value: number): Uint8Array {
  return concat([Uint8Array.of(I32, MUTABLE), constant(value), Uint8Array.of(OPCODE.end)])
}

/** `i32.const`; LEB128 of 32 bits can be of 5 bytes, which spares the sign. */
function constant(value: number): Uint8Array {
  const digits = [0, 7, 14, 21].map((shift) => ((value >> shift) & 0x7f) | 0x80)
  return Uint8Array.of(OPCODE.constant, ...digits, (value >> 28) & 0x7f)
}

/** What stands for `memory.size`. */
function sizeCode(pages: number): Uint8Array {
  return concat([Uint8Array.of(OPCODE.globalGet), leb(pages)])
}

/**
 * What stands for `memory.grow`: code, not a call, so that no function and no type has to be added.
 *
 * @param maximum - Most pages.
 */
function growCode(pages: number, maximum: number): Uint8Array {
  const { block, if: when, end, branchIf, drop, globalGet, globalSet } = OPCODE
  const { memorySize, memoryGrow, add, subtract, equal, greaterUnsigned } = OPCODE
  const more = leb(pages + 1)
  const [getPages, getMore, real] = [sizeCode(pages), [globalGet, ...more], [memorySize, 0]]
  const wanted = [...getPages, ...getMore, add]
  const refusal = constant(-1)
  return Uint8Array.from([
    ...[globalSet, ...more],
    ...[block, I32, ...refusal],
    // if more > maximum - pages: -1
    ...[...getMore, ...constant(maximum), ...getPages, subtract, greaterUnsigned, branchIf, 0],
    // if wanted > real: if memory.grow(wanted - real) == -1: -1
    ...[...wanted, ...real, greaterUnsigned, when, NO_RESULT, ...refusal],
    ...[...wanted, ...real, subtract, memoryGrow, 0, ...refusal, equal, branchIf, 1],
    ...[drop, end, drop],
    // pages, which then is what was wanted
    ...[...getPages, ...wanted, globalSet, ...leb(pages), end],
  ])
}

/** Allocators have a handful; whoever has more wants to see what a module can be blown up to. */
const MOST_PLACES = 1_000

interface Replacements {
  /** For `memory.size`. */
  readonly size: Uint8Array
  /** For `memory.grow`. */
  readonly grow: Uint8Array
  /** How many more there may be. */
  left: number
}

/** @returns undefined if there is an instruction that is not known, or too many are to be replaced. */
function rewriteCode(code: Uint8Array, replacements: Replacements): Uint8Array | undefined {
  const reader = new Reader(code)
  const parts = [leb(reader.u32())]
  while (!reader.done) {
    const end = reader.u32() + reader.at
    if (end > code.length) return undefined
    const body = rewriteBody(code, reader, end, replacements)
    if (!body) return undefined
    parts.push(leb(body.length), body)
  }
  return concat(parts)
}

function rewriteBody(
  code: Uint8Array,
  reader: Reader,
  end: number,
  replacements: Replacements,
): Uint8Array | undefined {
  const parts: Uint8Array[] = []
  let copied = reader.at
  if (!skipLocals(reader)) return undefined
  while (reader.at < end) {
    const start = reader.at
    const opcode = reader.byte()
    if (!skipImmediates(reader, opcode)) return undefined
    if (opcode !== OPCODE.memorySize && opcode !== OPCODE.memoryGrow) continue
    if (replacements.left-- === 0) return undefined
    parts.push(
      code.subarray(copied, start),
      opcode === OPCODE.memorySize ? replacements.size : replacements.grow,
    )
    copied = reader.at
  }
  if (reader.at !== end) return undefined
  return parts.length === 0 ? code.subarray(copied, end) : concat([...parts, code.subarray(copied, end)])
}
