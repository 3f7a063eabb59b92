import type { Reader } from './module-reader.ts'
import { OPCODE } from './opcodes.ts'

/**
 * Goes past what follows the opcode of an instruction. It knows WebAssembly 3.0, with relaxed SIMD, threads and legacy
 * exceptions: all that V8 runs unless told to experiment.
 *
 * @param reader - Stands behind the opcode's first byte, in a function that the engine has accepted.
 * @returns false if it does not know the instruction, or something in it: nothing behind it can be told then.
 * @see {@link https://webassembly.github.io/spec/core/binary/instructions.html}
 */
export function skipImmediates(reader: Reader, opcode: number): boolean {
  const immediates = opcode < FIRST_PREFIX ? PLAIN[opcode] : PREFIXED.get(opcode)?.[reader.u32()]
  if (!immediates) return false
  for (const skip of immediates) if (!skip(reader)) return false
  return true
}

/**
 * Goes past the instructions of a constant expression, up to its `end`.
 *
 * @returns false as {@link skipImmediates} does, and if there is no end.
 */
export function skipExpression(reader: Reader): boolean {
  while (!reader.done) {
    const opcode = reader.byte()
    if (opcode === OPCODE.end) return true
    if (!skipImmediates(reader, opcode)) return false
  }
  return false
}

/**
 * Goes past the locals that a function declares before its instructions.
 *
 * @returns how many they are; undefined if it does not know a type.
 */
export function skipLocals(reader: Reader): number | undefined {
  const counts = reader.list(() => {
    const count = reader.u32()
    return type(reader) ? count : undefined
  })
  return counts.reduce<number | undefined>(
    (sum, count) => (sum === undefined || count === undefined ? undefined : sum + count),
    0,
  )
}

/** Goes past one; false if it does not know it. */
type Immediate = (reader: Reader) => boolean

/** Opcodes from one to another that are followed by the same. */
type Row = readonly [first: number, last: number, ...immediates: Immediate[]]

/** An index, or a number as LEB128. */
const number: Immediate = (reader) => {
  reader.skipNumber()
  return true
}

const bytes =
  (length: number): Immediate =>
  (reader) => {
    reader.at += length
    return true
  }

const list =
  (item: Immediate): Immediate =>
  (reader) =>
    reader.list(() => item(reader)).every(Boolean)

/** An index of a type, or an abstract one. */
const heapType: Immediate = (reader) => {
  const code = reader.peek()
  reader.skipNumber()
  const isAbstract = code >= 0x69 && code <= 0x74
  return isAbstract || code >= 0x80 || code < 0x40
}

/** The type of a block or of a value: none, a number, a reference, an index of a type. */
const type: Immediate = (reader) => {
  const code = reader.peek()
  const isWithoutMore = code === 0x40 || (code >= 0x7b && code <= 0x7f)
  const isReference = code === 0x63 || code === 0x64
  if (isWithoutMore || isReference) reader.at++
  return isWithoutMore || heapType(reader)
}

const HAS_MEMORY_INDEX = 0x40

/** Alignment, memory and offset. */
const access: Immediate = (reader) => {
  const flags = reader.u32()
  if (flags & HAS_MEMORY_INDEX) reader.skipNumber()
  reader.skipNumber()
  return (flags & ~HAS_MEMORY_INDEX) < 8
}

/** What a `try_table` catches: a tag or all, with or without a reference, and where it goes then. */
const handler: Immediate = (reader) => {
  const kind = reader.byte()
  if (kind < 2) reader.skipNumber()
  reader.skipNumber()
  return kind < 4
}

const castFlags: Immediate = (reader) => reader.byte() < 4

const PLAIN = table([
  [0x00, 0x01], // unreachable, nop
  [0x02, 0x04, type], // block, loop, if
  [0x05, 0x05], // else
  [0x06, 0x06, type], // try
  [0x07, 0x09, number], // catch, throw, rethrow
  [0x0a, 0x0b], // throw_ref, end
  [0x0c, 0x0d, number], // br, br_if
  [0x0e, 0x0e, list(number), number], // br_table
  [0x0f, 0x0f], // return
  [0x10, 0x10, number], // call
  [0x11, 0x11, number, number], // call_indirect
  [0x12, 0x12, number], // return_call
  [0x13, 0x13, number, number], // return_call_indirect
  [0x14, 0x15, number], // call_ref, return_call_ref
  [0x18, 0x18, number], // delegate
  [0x19, 0x1b], // catch_all, drop, select
  [0x1c, 0x1c, list(type)], // select, of a type
  [0x1f, 0x1f, type, list(handler)], // try_table
  [0x20, 0x26, number], // of locals, globals, tables
  [0x28, 0x3e, access], // loads, stores
  [0x3f, 0x40, number], // memory.size, memory.grow
  [0x41, 0x42, number], // i32.const, i64.const
  [0x43, 0x43, bytes(4)], // f32.const
  [0x44, 0x44, bytes(8)], // f64.const
  [0x45, 0xc4], // arithmetic
  [0xd0, 0xd0, heapType], // ref.null
  [0xd1, 0xd1], // ref.is_null
  [0xd2, 0xd2, number], // ref.func
  [0xd3, 0xd4], // ref.eq, ref.as_non_null
  [0xd5, 0xd6, number], // br_on_null, br_on_non_null
])

const REFERENCES = table([
  [0x00, 0x01, number], // struct.new, struct.new_default
  [0x02, 0x05, number, number], // struct.get, struct.set
  [0x06, 0x07, number], // array.new, array.new_default
  [0x08, 0x0a, number, number], // array.new_fixed, array.new_data, array.new_elem
  [0x0b, 0x0e, number], // array.get, array.set
  [0x0f, 0x0f], // array.len
  [0x10, 0x10, number], // array.fill
  [0x11, 0x13, number, number], // array.copy, array.init_data, array.init_elem
  [0x14, 0x17, heapType], // ref.test, ref.cast
  [0x18, 0x19, castFlags, number, heapType, heapType], // br_on_cast, br_on_cast_fail
  [0x1a, 0x1e], // any.convert_extern, extern.convert_any, i31
])

const BULK = table([
  [0x00, 0x07], // saturating conversions
  [0x08, 0x08, number, number], // memory.init
  [0x09, 0x09, number], // data.drop
  [0x0a, 0x0a, number, number], // memory.copy
  [0x0b, 0x0b, number], // memory.fill
  [0x0c, 0x0c, number, number], // table.init
  [0x0d, 0x0d, number], // elem.drop
  [0x0e, 0x0e, number, number], // table.copy
  [0x0f, 0x11, number], // table.grow, table.size, table.fill
])

const VECTORS = table([
  [0x00, 0x0b, access], // loads, v128.store
  [0x0c, 0x0d, bytes(16)], // v128.const, i8x16.shuffle
  [0x0e, 0x14], // swizzle, splats
  [0x15, 0x22, bytes(1)], // of one lane
  [0x23, 0x53], // comparisons, v128
  [0x54, 0x5b, access, bytes(1)], // loads and stores of one lane
  [0x5c, 0x5d, access], // loads with zeros
  [0x5e, 0x113], // arithmetic, relaxed
])

const ATOMICS = table([
  [0x00, 0x02, access], // notify, wait
  [0x03, 0x03, bytes(1)], // fence
  [0x10, 0x4e, access],
])

const FIRST_PREFIX = 0xfb

const PREFIXED = new Map([
  [FIRST_PREFIX, REFERENCES],
  [0xfc, BULK],
  [0xfd, VECTORS],
  [0xfe, ATOMICS],
])

function table(rows: readonly Row[]): readonly (readonly Immediate[] | undefined)[] {
  const immediates: (readonly Immediate[])[] = []
  for (const [first, last, ...skips] of rows) {
    for (let opcode = first; opcode <= last; opcode++) immediates[opcode] = skips
  }
  return immediates
}
