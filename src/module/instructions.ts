/**
 * What follows an opcode, or what it does to blocks. {@link ACTION} has one for each opcode that is known:
 * WebAssembly 3.0 with relaxed SIMD, threads and legacy exceptions, which is all that V8 runs unless told to experiment.
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

/** The first number of operations on garbage-collected values, and the first behind them. */
export const GC_CODES = { first: 0x100, behind: 0x200 } as const

/** Opcodes from here on are followed by the number of an operation. */
export const FIRST_PREFIX = 0xfb

/** @returns the place of an operation in the tables; 0xff, which is not known, if there is none. */
export function codeOf(prefix: number, operation: number): number {
  const range = PREFIXES[prefix]
  return range && operation < range.count ? range.base + operation : 0xff
}

const CODES = 0x600

/** One of {@link DO} for each code. */
export const ACTION: Readonly<Uint8Array> = new Uint8Array(CODES)
/** How many values it takes from the stack. */
export const POPS: Readonly<Uint8Array> = new Uint8Array(CODES)
/** How many values it puts there. */
export const PUSHES: Readonly<Uint8Array> = new Uint8Array(CODES)

type Row = readonly [codes: readonly number[], action: number, pops?: number, pushes?: number]

const range = (first: number, last = first): number[] =>
  Array.from({ length: last - first + 1 }, (_, place) => first + place)

function define(base: number, rows: readonly Row[]): void {
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
