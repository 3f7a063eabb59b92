/** Types of values. */
export const I32 = 0x7f
export const I64 = 0x7e
export const F32 = 0x7d
export const F64 = 0x7c
export const V128 = 0x7b

/** Instructions that are looked for, or written. */
export const OPCODE = {
  block: 0x02,
  if: 0x04,
  end: 0x0b,
  branchIf: 0x0d,
  drop: 0x1a,
  localGet: 0x20,
  localSet: 0x21,
  localTee: 0x22,
  globalGet: 0x23,
  globalSet: 0x24,
  tableSet: 0x26,
  memorySize: 0x3f,
  memoryGrow: 0x40,
  constant: 0x41,
  equal: 0x46,
  lessUnsigned: 0x49,
  greaterUnsigned: 0x4b,
  add: 0x6a,
  subtract: 0x6b,
  /** The type of a block without a result. */
  noResult: 0x40,
} as const

/** Opcodes that are followed by the number of an operation. */
export const PREFIX = { references: 0xfb, bulk: 0xfc, vectors: 0xfd, atomics: 0xfe } as const

/** Operations on memories, data, tables and elements. */
export const BULK = {
  memoryInit: 8,
  dataDrop: 9,
  memoryCopy: 10,
  memoryFill: 11,
  tableInit: 12,
  elementDrop: 13,
  tableCopy: 14,
  tableGrow: 15,
  tableFill: 17,
} as const

/** `i32.const`; LEB128 of 32 bits can be of 5 bytes, which spares the sign. */
export function constant(value: number): readonly number[] {
  const digits = [0, 7, 14, 21].map((shift) => ((value >> shift) & 0x7f) | 0x80)
  return [OPCODE.constant, ...digits, (value >> 28) & 0x7f]
}
