import type { ByteReader } from './bytes.ts'
import { readHeapType, readValueType } from './types.ts'

/*
 * The only table of instructions. Each has a code: its opcode, or a prefix and the number of an operation together.
 */

/**
 * The immediates of an opcode, or its effect on blocks. {@link ACTION_OF} has one for each known opcode: WebAssembly 3.0
 * with relaxed SIMD, threads and legacy exceptions, which is everything that V8 supports without experimental flags.
 *
 * @see {@link https://webassembly.github.io/spec/core/binary/instructions.html}
 */
export const ACTION = {
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
  loop: 0x03,
  if: 0x04,
  else: 0x05,
  end: 0x0b,
  branch: 0x0c,
  branchIf: 0x0d,
  call: 0x10,
  callIndirect: 0x11,
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
  and: 0x71,
  shiftRightUnsigned: 0x76,
  add64: 0x7c,
  shiftRightUnsigned64: 0x88,
  wrap64: 0xa7,
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

/** `i32.const` in as few bytes as possible: V8 inlines short functions. @param value - 32 bits, with or without a sign. */
export function constant(value: number): readonly number[] {
  const code: number[] = [CODE.constant]
  for (let rest = value | 0; ; rest >>= 7) {
    const isLast = rest >= -64 && rest < 64
    code.push(isLast ? rest & 0x7f : (rest & 0x7f) | 0x80)
    if (isLast) return code
  }
}

const CODE_COUNT = 0x600

/** One of {@link ACTION} for each code. */
export const ACTION_OF: Readonly<Uint8Array> = new Uint8Array(CODE_COUNT)
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
  /** Waits for other threads. */
  waits: 128,
} as const

type TableRow = readonly [codes: readonly number[], action: number, pops?: number, pushes?: number]

/** All codes between two. */
export const range = (first: number, last = first): number[] =>
  Array.from({ length: last - first + 1 }, (_, place) => first + place)

function define(base: number, rows: readonly TableRow[]): void {
  for (const [codes, action, pops = 0, pushes = 0] of rows) {
    for (const code of codes) {
      ;(ACTION_OF as Uint8Array)[base + code] = action
      ;(POPS as Uint8Array)[base + code] = pops
      ;(PUSHES as Uint8Array)[base + code] = pushes
    }
  }
}

define(0, [
  [[0x00], ACTION.unreachable],
  [[0x01], ACTION.nothing],
  [[0x02], ACTION.block],
  [[0x03], ACTION.loop],
  [[0x04], ACTION.if, 1],
  [[0x05], ACTION.else],
  [[0x06], ACTION.try],
  [[0x07], ACTION.catch],
  [[0x08], ACTION.throw],
  [[0x09], ACTION.rethrow],
  [[0x0a], ACTION.throwRef, 1],
  [[0x0b], ACTION.end],
  [[0x0c], ACTION.branch],
  [[0x0d], ACTION.branchIf, 1],
  [[0x0e], ACTION.branchTable, 1],
  [[0x0f], ACTION.return],
  [[0x10], ACTION.call],
  [[0x11], ACTION.callIndirect, 1],
  [[0x12], ACTION.returnCall],
  [[0x13], ACTION.returnCallIndirect, 1],
  [[0x14], ACTION.callRef, 1],
  [[0x15], ACTION.returnCallRef, 1],
  [[0x18], ACTION.delegate],
  [[0x19], ACTION.catchAll],
  [[0x1a], ACTION.nothing, 1], // drop
  [[0x1b], ACTION.nothing, 3, 1], // select
  [[0x1c], ACTION.select, 3, 1],
  [[0x1f], ACTION.tryTable],
  [[0x20, 0x23], ACTION.number, 0, 1], // local.get, global.get
  [[0x21], ACTION.set, 1], // local.set
  [[0x22], ACTION.set, 1, 1], // local.tee
  [[0x24], ACTION.number, 1], // global.set
  [[0x25], ACTION.number, 1, 1], // table.get
  [[0x26], ACTION.number, 2], // table.set
  [range(0x28, 0x35), ACTION.access, 1, 1], // loads
  [range(0x36, 0x3e), ACTION.access, 2], // stores
  [[0x3f], ACTION.number, 0, 1], // memory.size
  [[0x40], ACTION.number, 1, 1], // memory.grow
  [[0x41, 0x42], ACTION.number, 0, 1], // i32.const, i64.const
  [[0x43], ACTION.bytes4, 0, 1], // f32.const
  [[0x44], ACTION.bytes8, 0, 1], // f64.const
  [range(0x45, 0xc4), ACTION.nothing, 2, 1], // comparisons, arithmetic of two
  [[0x45, 0x50], ACTION.nothing, 1, 1], // eqz
  [[...range(0x67, 0x69), ...range(0x79, 0x7b)], ACTION.nothing, 1, 1], // clz, ctz, popcnt
  [[...range(0x8b, 0x91), ...range(0x99, 0x9f)], ACTION.nothing, 1, 1], // of one float
  [range(0xa7, 0xc4), ACTION.nothing, 1, 1], // conversions
  [[0xd0], ACTION.heapType, 0, 1], // ref.null
  [[0xd1, 0xd4], ACTION.nothing, 1, 1], // ref.is_null, ref.as_non_null
  [[0xd2], ACTION.number, 0, 1], // ref.func
  [[0xd3], ACTION.nothing, 2, 1], // ref.eq
  [[0xd5], ACTION.branchIf, 1, 1], // br_on_null
  [[0xd6], ACTION.branchIf, 1], // br_on_non_null
])

define(0x100, [
  [[0x00], ACTION.structNew, 0, 1],
  [[0x01], ACTION.number, 0, 1], // struct.new_default
  [range(0x02, 0x04), ACTION.numbers, 1, 1], // struct.get
  [[0x05], ACTION.numbers, 2], // struct.set
  [[0x06], ACTION.number, 2, 1], // array.new
  [[0x07], ACTION.number, 1, 1], // array.new_default
  [[0x08], ACTION.arrayFixed, 0, 1],
  [[0x09, 0x0a], ACTION.numbers, 2, 1], // array.new_data, array.new_elem
  [range(0x0b, 0x0d), ACTION.number, 2, 1], // array.get
  [[0x0e], ACTION.number, 3], // array.set
  [[0x0f], ACTION.nothing, 1, 1], // array.len
  [[0x10], ACTION.number, 4], // array.fill
  [[0x11], ACTION.numbers, 5], // array.copy
  [[0x12, 0x13], ACTION.numbers, 4], // array.init_data, array.init_elem
  [range(0x14, 0x17), ACTION.heapType, 1, 1], // ref.test, ref.cast
  [[0x18, 0x19], ACTION.branchCast, 1, 1], // br_on_cast, br_on_cast_fail
  [range(0x1a, 0x1e), ACTION.nothing, 1, 1], // any.convert_extern, extern.convert_any, i31
])

define(0x200, [
  [range(0x00, 0x07), ACTION.nothing, 1, 1], // saturating conversions
  [[0x08, 0x0a, 0x0c, 0x0e], ACTION.numbers, 3], // memory.init, memory.copy, table.init, table.copy
  [[0x09, 0x0d], ACTION.number], // data.drop, elem.drop
  [[0x0b, 0x11], ACTION.number, 3], // memory.fill, table.fill
  [[0x0f], ACTION.number, 2, 1], // table.grow
  [[0x10], ACTION.number, 0, 1], // table.size
])

define(0x300, [
  [range(0x00, 0x0a), ACTION.access, 1, 1], // loads
  [[0x0b], ACTION.access, 2], // v128.store
  [[0x0c], ACTION.bytes16, 0, 1], // v128.const
  [[0x0d], ACTION.bytes16, 2, 1], // i8x16.shuffle
  [[0x0e], ACTION.nothing, 2, 1], // swizzle
  [range(0x0f, 0x14), ACTION.nothing, 1, 1], // splat
  [[0x15, 0x16, 0x18, 0x19, 0x1b, 0x1d, 0x1f, 0x21], ACTION.lane, 1, 1], // extract_lane
  [[0x17, 0x1a, 0x1c, 0x1e, 0x20, 0x22], ACTION.lane, 2, 1], // replace_lane
  [range(0x23, 0x51), ACTION.nothing, 2, 1], // comparisons, and, or, xor
  [[0x4d, 0x53], ACTION.nothing, 1, 1], // not, any_true
  [[0x52], ACTION.nothing, 3, 1], // bitselect
  [range(0x54, 0x57), ACTION.accessLane, 2, 1], // loads of one lane
  [range(0x58, 0x5b), ACTION.accessLane, 2], // stores of one lane
  [[0x5c, 0x5d], ACTION.access, 1, 1], // loads with zeros
  [[...range(0x65, 0x66), ...range(0x6b, 0x73), ...range(0x76, 0x79), 0x7b], ACTION.nothing, 2, 1],
  [
    [0x82, 0x85, 0x86, ...range(0x8b, 0x93), ...range(0x95, 0x99), ...range(0x9b, 0x9f)],
    ACTION.nothing,
    2,
    1,
  ],
  [[...range(0xab, 0xae), 0xb1, ...range(0xb5, 0xba), ...range(0xbc, 0xbf)], ACTION.nothing, 2, 1],
  [[...range(0xcb, 0xce), 0xd1, ...range(0xd5, 0xdf), ...range(0xe4, 0xeb)], ACTION.nothing, 2, 1],
  [[...range(0xf0, 0xf7), 0x100, ...range(0x10d, 0x112)], ACTION.nothing, 2, 1],
  [
    [...range(0x5e, 0x64), ...range(0x67, 0x6a), 0x74, 0x75, 0x7a, ...range(0x7c, 0x7f)],
    ACTION.nothing,
    1,
    1,
  ],
  [[0x80, 0x81, 0x83, 0x84, ...range(0x87, 0x8a), 0x94], ACTION.nothing, 1, 1],
  [[0xa0, 0xa1, 0xa3, 0xa4, ...range(0xa7, 0xaa)], ACTION.nothing, 1, 1],
  [[0xc0, 0xc1, 0xc3, 0xc4, ...range(0xc7, 0xca)], ACTION.nothing, 1, 1],
  [[0xe0, 0xe1, 0xe3, 0xec, 0xed, 0xef, ...range(0xf8, 0xff), ...range(0x101, 0x104)], ACTION.nothing, 1, 1],
  [[...range(0x105, 0x10c), 0x113], ACTION.nothing, 3, 1], // madd, nmadd, laneselect, dot_add
])

define(0x500, [
  [[0x00], ACTION.access, 2, 1], // notify
  [[0x01, 0x02], ACTION.access, 3, 1], // wait
  [[0x03], ACTION.lane], // fence
  [range(0x10, 0x16), ACTION.access, 1, 1], // loads
  [range(0x17, 0x1d), ACTION.access, 2], // stores
  [range(0x1e, 0x47), ACTION.access, 2, 1], // read, modify, write
  [range(0x48, 0x4e), ACTION.access, 3, 1], // compare and exchange
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
mark(MARK.waits, [0x501, 0x502])
mark(MARK.bulk, [CODE.tableInit, CODE.tableCopy, CODE.tableFill, CODE.tableGrow])

const HAS_MEMORY_INDEX = 0x40

/**
 * Skips the immediates of an instruction.
 *
 * @param code - As {@link readCode} returns it.
 * @throws {@link PluginInvalidError} if the instruction or one of its immediates is unknown.
 */
export function skipImmediates(reader: ByteReader, code: number): void {
  switch (ACTION_OF[code]) {
    case ACTION.nothing:
    case ACTION.unreachable:
    case ACTION.end:
    case ACTION.else:
    case ACTION.return:
    case ACTION.catchAll:
    case ACTION.throwRef:
      break
    case ACTION.number:
    case ACTION.set:
    case ACTION.branch:
    case ACTION.branchIf:
    case ACTION.call:
    case ACTION.callRef:
    case ACTION.returnCall:
    case ACTION.returnCallRef:
    case ACTION.catch:
    case ACTION.delegate:
    case ACTION.throw:
    case ACTION.rethrow:
    case ACTION.structNew:
      reader.skipNumber()
      break
    case ACTION.numbers:
    case ACTION.callIndirect:
    case ACTION.returnCallIndirect:
    case ACTION.arrayFixed:
      reader.skipNumber()
      reader.skipNumber()
      break
    case ACTION.access:
      skipAccess(reader)
      break
    case ACTION.block:
    case ACTION.loop:
    case ACTION.if:
    case ACTION.try:
      skipBlockType(reader)
      break
    case ACTION.bytes4:
      reader.skip(4)
      break
    case ACTION.bytes8:
      reader.skip(8)
      break
    case ACTION.bytes16:
      reader.skip(16)
      break
    case ACTION.lane:
      reader.skip(1)
      break
    case ACTION.accessLane:
      skipAccess(reader)
      reader.skip(1)
      break
    case ACTION.heapType:
      readHeapType(reader)
      break
    case ACTION.select:
      for (let left = reader.u32(); left > 0; left--) readValueType(reader)
      break
    case ACTION.branchTable:
      for (let left = reader.u32(); left >= 0; left--) reader.skipNumber()
      break
    case ACTION.branchCast:
      if (reader.byte() > 3) reader.fail('it has a cast of an unknown kind')
      reader.skipNumber()
      readHeapType(reader)
      readHeapType(reader)
      break
    case ACTION.tryTable:
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
export function skipBlockType(reader: ByteReader): void {
  const code = reader.peek()
  if (code === NO_RESULT) reader.skip(1)
  else if (code >= 0x40 && code < 0x80) readValueType(reader)
  else reader.s33()
}
