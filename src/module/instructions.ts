import type { ByteReader } from './bytes.ts'
import { readHeapType, readValueType } from './types.ts'

/*
 * The only table of instructions. Each has a code: its opcode, or a prefix and the number of an operation together.
 */

/**
 * The immediates of an opcode, or its effect on blocks. {@link ACTION} has one for each known opcode: WebAssembly 3.0
 * with relaxed SIMD, threads and legacy exceptions, which is everything that V8 supports without experimental flags.
 *
 * @see {@link https://webassembly.github.io/spec/core/binary/instructions.html}
 */
export const DO = {
  unknown: 0,
  nothing: 1,
  number: 2,
  numbers: 3,
  bytes4: 4,
  bytes8: 5,
  bytes16: 6,
  lane: 7,
  access: 8,
  accessLane: 9,
  heapType: 10,
  select: 11,
  unreachable: 12,
  block: 13,
  loop: 14,
  if: 15,
  else: 16,
  try: 17,
  catch: 18,
  catchAll: 19,
  delegate: 20,
  tryTable: 21,
  end: 22,
  branch: 23,
  branchIf: 24,
  branchTable: 25,
  return: 26,
  throw: 27,
  rethrow: 28,
  throwRef: 29,
  call: 30,
  callIndirect: 31,
  callRef: 32,
  returnCall: 33,
  returnCallIndirect: 34,
  returnCallRef: 35,
  branchCast: 36,
  structNew: 37,
  arrayFixed: 38,
  set: 39,
} as const

/** A prefix with its operation is one number: see {@link codeOf}. */
const PREFIXES: Readonly<Record<number, { readonly base: number; readonly count: number }>> = {
  251: { base: 0x100, count: 0x100 },
  252: { base: 0x200, count: 0x100 },
  253: { base: 0x300, count: 0x200 },
  254: { base: 0x500, count: 0x100 },
}

/** Opcodes from this one on are followed by the number of an operation. */
export const FIRST_PREFIX = 0xfb

/** @returns the code of an operation; 0xff, an unknown opcode, if there is none. */
export function codeOf(prefix: number, operation: number): number {
  const range = PREFIXES[prefix]
  return range && operation < range.count ? range.base + operation : 0xff
}

/** Reads an opcode, with its operation if it is a prefix. */
export function readCode(reader: ByteReader): number {
  const opcode = reader.byte()
  return opcode < FIRST_PREFIX ? opcode : codeOf(opcode, reader.u32())
}

/** Instructions that are searched for, or written. */
export const CODE = {
  unreachable: 0x00,
  nop: 0x01,
  block: 0x02,
  if: 0x04,
  else: 0x05,
  end: 0x0b,
  branchIf: 0x0d,
  call: 0x10,
  drop: 0x1a,
  select: 0x1b,
  localGet: 0x20,
  localSet: 0x21,
  localTee: 0x22,
  globalGet: 0x23,
  globalSet: 0x24,
  tableGet: 0x25,
  tableSet: 0x26,
  load64: 0x29,
  firstStore: 0x36,
  lastStore: 0x3e,
  memorySize: 0x3f,
  memoryGrow: 0x40,
  constant: 0x41,
  constant64: 0x42,
  equalZero: 0x45,
  equal: 0x46,
  equal64: 0x51,
  lessUnsigned: 0x49,
  greaterUnsigned: 0x4b,
  add: 0x6a,
  subtract: 0x6b,
  add64: 0x7c,
  functionReference: 0xd2,
  firstSaturating: 0x200,
  lastSaturating: 0x207,
  memoryInit: 0x208,
  dataDrop: 0x209,
  memoryCopy: 0x20a,
  memoryFill: 0x20b,
  tableInit: 0x20c,
  elementDrop: 0x20d,
  tableCopy: 0x20e,
  tableGrow: 0x20f,
  tableFill: 0x211,
  vectorStore: 0x30b,
  firstLaneStore: 0x358,
  lastLaneStore: 0x35b,
} as const

/** The type of a block without a result. */
export const NO_RESULT = 0x40

/** `i32.const`. Its number has 5 bytes, so that no bit is read as the sign. */
export function constant(value: number): readonly number[] {
  const digits = [0, 7, 14, 21].map((shift) => ((value >> shift) & 0x7f) | 0x80)
  return [CODE.constant, ...digits, (value >> 28) & 0x7f]
}

const CODE_COUNT = 0x600

/** One of {@link DO} for each code. */
export const ACTION: Readonly<Uint8Array> = new Uint8Array(CODE_COUNT)
/** Number of values that it pops. */
export const POPS: Readonly<Uint8Array> = new Uint8Array(CODE_COUNT)
/** Number of values that it pushes. */
export const PUSHES: Readonly<Uint8Array> = new Uint8Array(CODE_COUNT)
/** Bits of {@link MARK}. */
export const MARKS: Readonly<Uint8Array> = new Uint8Array(CODE_COUNT)

/** Flags of a function, set by its instructions. */
export const MARK = {
  /** Works on garbage-collected values. */
  collected: 1,
  /** Reads the size of a memory, or grows it. */
  sizesMemory: 2,
  /** Changes state that a host cannot restore: a table, or dropped data and elements. */
  lasting: 4,
  /** Writes into a memory. */
  writes: 8,
  /** Writes into a memory atomically. */
  writesAtomically: 16,
  /** Calls an imported function. */
  callsImport: 32,
  /** Has work that grows with an operand: a memory or a table is filled, copied, initialised or grown. */
  bulk: 64,
} as const

type TableRow = readonly [codes: readonly number[], action: number, pops?: number, pushes?: number]

/** All codes between two. */
export const range = (first: number, last = first): number[] =>
  Array.from({ length: last - first + 1 }, (_, place) => first + place)

function define(base: number, rows: readonly TableRow[]): void {
  for (const [codes, action, pops = 0, pushes = 0] of rows) {
    for (const code of codes) {
      ;(ACTION as Uint8Array)[base + code] = action
      ;(POPS as Uint8Array)[base + code] = pops
      ;(PUSHES as Uint8Array)[base + code] = pushes
    }
  }
}

define(0, [
  [[0x00], DO.unreachable],
  [[0x01], DO.nothing],
  [[0x02], DO.block],
  [[0x03], DO.loop],
  [[0x04], DO.if, 1],
  [[0x05], DO.else],
  [[0x06], DO.try],
  [[0x07], DO.catch],
  [[0x08], DO.throw],
  [[0x09], DO.rethrow],
  [[0x0a], DO.throwRef, 1],
  [[0x0b], DO.end],
  [[0x0c], DO.branch],
  [[0x0d], DO.branchIf, 1],
  [[0x0e], DO.branchTable, 1],
  [[0x0f], DO.return],
  [[0x10], DO.call],
  [[0x11], DO.callIndirect, 1],
  [[0x12], DO.returnCall],
  [[0x13], DO.returnCallIndirect, 1],
  [[0x14], DO.callRef, 1],
  [[0x15], DO.returnCallRef, 1],
  [[0x18], DO.delegate],
  [[0x19], DO.catchAll],
  [[0x1a], DO.nothing, 1], // drop
  [[0x1b], DO.nothing, 3, 1], // select
  [[0x1c], DO.select, 3, 1],
  [[0x1f], DO.tryTable],
  [[0x20, 0x23], DO.number, 0, 1], // local.get, global.get
  [[0x21], DO.set, 1], // local.set
  [[0x22], DO.set, 1, 1], // local.tee
  [[0x24], DO.number, 1], // global.set
  [[0x25], DO.number, 1, 1], // table.get
  [[0x26], DO.number, 2], // table.set
  [range(0x28, 0x35), DO.access, 1, 1], // loads
  [range(0x36, 0x3e), DO.access, 2], // stores
  [[0x3f], DO.number, 0, 1], // memory.size
  [[0x40], DO.number, 1, 1], // memory.grow
  [[0x41, 0x42], DO.number, 0, 1], // i32.const, i64.const
  [[0x43], DO.bytes4, 0, 1], // f32.const
  [[0x44], DO.bytes8, 0, 1], // f64.const
  [range(0x45, 0xc4), DO.nothing, 2, 1], // comparisons, arithmetic of two
  [[0x45, 0x50], DO.nothing, 1, 1], // eqz
  [[...range(0x67, 0x69), ...range(0x79, 0x7b)], DO.nothing, 1, 1], // clz, ctz, popcnt
  [[...range(0x8b, 0x91), ...range(0x99, 0x9f)], DO.nothing, 1, 1], // of one float
  [range(0xa7, 0xc4), DO.nothing, 1, 1], // conversions
  [[0xd0], DO.heapType, 0, 1], // ref.null
  [[0xd1, 0xd4], DO.nothing, 1, 1], // ref.is_null, ref.as_non_null
  [[0xd2], DO.number, 0, 1], // ref.func
  [[0xd3], DO.nothing, 2, 1], // ref.eq
  [[0xd5], DO.branchIf, 1, 1], // br_on_null
  [[0xd6], DO.branchIf, 1], // br_on_non_null
])

define(0x100, [
  [[0x00], DO.structNew, 0, 1],
  [[0x01], DO.number, 0, 1], // struct.new_default
  [range(0x02, 0x04), DO.numbers, 1, 1], // struct.get
  [[0x05], DO.numbers, 2], // struct.set
  [[0x06], DO.number, 2, 1], // array.new
  [[0x07], DO.number, 1, 1], // array.new_default
  [[0x08], DO.arrayFixed, 0, 1],
  [[0x09, 0x0a], DO.numbers, 2, 1], // array.new_data, array.new_elem
  [range(0x0b, 0x0d), DO.number, 2, 1], // array.get
  [[0x0e], DO.number, 3], // array.set
  [[0x0f], DO.nothing, 1, 1], // array.len
  [[0x10], DO.number, 4], // array.fill
  [[0x11], DO.numbers, 5], // array.copy
  [[0x12, 0x13], DO.numbers, 4], // array.init_data, array.init_elem
  [range(0x14, 0x17), DO.heapType, 1, 1], // ref.test, ref.cast
  [[0x18, 0x19], DO.branchCast, 1, 1], // br_on_cast, br_on_cast_fail
  [range(0x1a, 0x1e), DO.nothing, 1, 1], // any.convert_extern, extern.convert_any, i31
])

define(0x200, [
  [range(0x00, 0x07), DO.nothing, 1, 1], // saturating conversions
  [[0x08, 0x0a, 0x0c, 0x0e], DO.numbers, 3], // memory.init, memory.copy, table.init, table.copy
  [[0x09, 0x0d], DO.number], // data.drop, elem.drop
  [[0x0b, 0x11], DO.number, 3], // memory.fill, table.fill
  [[0x0f], DO.number, 2, 1], // table.grow
  [[0x10], DO.number, 0, 1], // table.size
])

define(0x300, [
  [range(0x00, 0x0a), DO.access, 1, 1], // loads
  [[0x0b], DO.access, 2], // v128.store
  [[0x0c], DO.bytes16, 0, 1], // v128.const
  [[0x0d], DO.bytes16, 2, 1], // i8x16.shuffle
  [[0x0e], DO.nothing, 2, 1], // swizzle
  [range(0x0f, 0x14), DO.nothing, 1, 1], // splat
  [[0x15, 0x16, 0x18, 0x19, 0x1b, 0x1d, 0x1f, 0x21], DO.lane, 1, 1], // extract_lane
  [[0x17, 0x1a, 0x1c, 0x1e, 0x20, 0x22], DO.lane, 2, 1], // replace_lane
  [range(0x23, 0x51), DO.nothing, 2, 1], // comparisons, and, or, xor
  [[0x4d, 0x53], DO.nothing, 1, 1], // not, any_true
  [[0x52], DO.nothing, 3, 1], // bitselect
  [range(0x54, 0x57), DO.accessLane, 2, 1], // loads of one lane
  [range(0x58, 0x5b), DO.accessLane, 2], // stores of one lane
  [[0x5c, 0x5d], DO.access, 1, 1], // loads with zeros
  [[...range(0x65, 0x66), ...range(0x6b, 0x73), ...range(0x76, 0x79), 0x7b], DO.nothing, 2, 1],
  [[0x82, 0x85, 0x86, ...range(0x8b, 0x93), ...range(0x95, 0x99), ...range(0x9b, 0x9f)], DO.nothing, 2, 1],
  [[...range(0xab, 0xae), 0xb1, ...range(0xb5, 0xba), ...range(0xbc, 0xbf)], DO.nothing, 2, 1],
  [[...range(0xcb, 0xce), 0xd1, ...range(0xd5, 0xdf), ...range(0xe4, 0xeb)], DO.nothing, 2, 1],
  [[...range(0xf0, 0xf7), 0x100, ...range(0x10d, 0x112)], DO.nothing, 2, 1],
  [[...range(0x5e, 0x64), ...range(0x67, 0x6a), 0x74, 0x75, 0x7a, ...range(0x7c, 0x7f)], DO.nothing, 1, 1],
  [[0x80, 0x81, 0x83, 0x84, ...range(0x87, 0x8a), 0x94], DO.nothing, 1, 1],
  [[0xa0, 0xa1, 0xa3, 0xa4, ...range(0xa7, 0xaa)], DO.nothing, 1, 1],
  [[0xc0, 0xc1, 0xc3, 0xc4, ...range(0xc7, 0xca)], DO.nothing, 1, 1],
  [[0xe0, 0xe1, 0xe3, 0xec, 0xed, 0xef, ...range(0xf8, 0xff), ...range(0x101, 0x104)], DO.nothing, 1, 1],
  [[...range(0x105, 0x10c), 0x113], DO.nothing, 3, 1], // madd, nmadd, laneselect, dot_add
])

define(0x500, [
  [[0x00], DO.access, 2, 1], // notify
  [[0x01, 0x02], DO.access, 3, 1], // wait
  [[0x03], DO.lane], // fence
  [range(0x10, 0x16), DO.access, 1, 1], // loads
  [range(0x17, 0x1d), DO.access, 2], // stores
  [range(0x1e, 0x47), DO.access, 2, 1], // read, modify, write
  [range(0x48, 0x4e), DO.access, 3, 1], // compare and exchange
])

function mark(bit: number, codes: readonly number[]): void {
  for (const code of codes) (MARKS as Uint8Array)[code] = (MARKS[code] ?? 0) | bit
}

mark(MARK.collected, range(0x100, 0x1ff))
mark(MARK.sizesMemory, [CODE.memorySize, CODE.memoryGrow])
mark(MARK.lasting, [CODE.tableSet, CODE.tableInit, CODE.tableCopy, CODE.tableGrow, CODE.tableFill])
mark(MARK.lasting, [CODE.dataDrop, CODE.elementDrop])
mark(MARK.writes, range(CODE.firstStore, CODE.lastStore))
mark(MARK.writes, [CODE.memoryInit, CODE.memoryCopy, CODE.memoryFill])
mark(MARK.writes, [CODE.vectorStore, ...range(CODE.firstLaneStore, CODE.lastLaneStore)])
mark(MARK.writesAtomically, range(0x517, 0x54e))
mark(MARK.bulk, [CODE.memoryInit, CODE.memoryCopy, CODE.memoryFill, CODE.memoryGrow])
mark(MARK.bulk, [CODE.tableInit, CODE.tableCopy, CODE.tableFill, CODE.tableGrow])

const HAS_MEMORY_INDEX = 0x40

/**
 * Skips the immediates of an instruction.
 *
 * @param code - As {@link readCode} returns it.
 * @throws {@link PluginInvalidError} if the instruction or one of its immediates is unknown.
 */
export function skipImmediates(reader: ByteReader, code: number): void {
  switch (ACTION[code]) {
    case DO.nothing:
    case DO.unreachable:
    case DO.end:
    case DO.else:
    case DO.return:
    case DO.catchAll:
    case DO.throwRef:
      break
    case DO.number:
    case DO.set:
    case DO.branch:
    case DO.branchIf:
    case DO.call:
    case DO.callRef:
    case DO.returnCall:
    case DO.returnCallRef:
    case DO.catch:
    case DO.delegate:
    case DO.throw:
    case DO.rethrow:
    case DO.structNew:
      reader.skipNumber()
      break
    case DO.numbers:
    case DO.callIndirect:
    case DO.returnCallIndirect:
    case DO.arrayFixed:
      reader.skipNumber()
      reader.skipNumber()
      break
    case DO.access:
      skipAccess(reader)
      break
    case DO.block:
    case DO.loop:
    case DO.if:
    case DO.try:
      skipBlockType(reader)
      break
    case DO.bytes4:
      reader.skip(4)
      break
    case DO.bytes8:
      reader.skip(8)
      break
    case DO.bytes16:
      reader.skip(16)
      break
    case DO.lane:
      reader.skip(1)
      break
    case DO.accessLane:
      skipAccess(reader)
      reader.skip(1)
      break
    case DO.heapType:
      readHeapType(reader)
      break
    case DO.select:
      for (let left = reader.u32(); left > 0; left--) readValueType(reader)
      break
    case DO.branchTable:
      for (let left = reader.u32(); left >= 0; left--) reader.skipNumber()
      break
    case DO.branchCast:
      if (reader.byte() > 3) reader.fail('it has a cast of an unknown kind')
      reader.skipNumber()
      readHeapType(reader)
      readHeapType(reader)
      break
    case DO.tryTable:
      skipBlockType(reader)
      for (let left = reader.u32(); left > 0; left--) {
        if (readHandlerKind(reader) < 2) reader.skipNumber()
        reader.skipNumber()
      }
      break
    default:
      reader.fail(`it has an unknown instruction (0x${code.toString(16)})`)
  }
}

/** Skips the immediates of a load or a store: its alignment, its memory, its offset. */
export function skipAccess(reader: ByteReader): void {
  skipAlignment(reader)
  reader.skipNumber()
}

/** Skips the alignment and the memory of a load or a store: its offset is next. */
export function skipAlignment(reader: ByteReader): void {
  const flags = reader.u32()
  if ((flags & ~HAS_MEMORY_INDEX) > 7) reader.fail('it has an access of an unknown kind')
  if (flags & HAS_MEMORY_INDEX) reader.u32()
}

/** Skips a catch clause of a `try_table`: a tag or all, with or without a reference. Kinds below 2 have a tag. */
export function readHandlerKind(reader: ByteReader): number {
  const kind = reader.byte()
  if (kind > 3) reader.fail('it has a handler of an unknown kind')
  return kind
}

/** A block type: empty, a value type, or a type index. */
function skipBlockType(reader: ByteReader): void {
  const code = reader.peek()
  if (code === NO_RESULT) reader.skip(1)
  else if (code >= 0x40 && code < 0x80) readValueType(reader)
  else reader.s33()
}
