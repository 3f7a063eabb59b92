import { leb } from './bytes.ts'
import type { Body, Instruction, Rewrite, Rewriter, Temporaries } from './code-rewriter.ts'
import { CODE, constant, NO_RESULT, skipAlignment } from './instructions.ts'
import { type ItemKind, type ModuleView, SECTION } from './module-view.ts'
import { RESET_EXPORT, RESTORED_AROUND, WRITTEN_BLOCK_BITS } from './names.ts'
import { F32, F64, FUNCTION_FORM, I32, I64, numberType, V128 } from './types.ts'
import { WrittenBases } from './written-bases.ts'

/*
 * Records which part of its memory a module writes, so that only this part has to be restored.
 *
 * Where V8 has arrays, each write marks its block. The marks are an array, because the guest could change marks in its own
 * memory, and for a second memory V8 reserves 10 GiB of address space. Elsewhere only the lowest written address is recorded.
 */

const ARRAY_FORM = 0x5e
const PACKED_I8 = 0x78
const MUTABLE = 1
/** An array of bytes. */
const ARRAY = Uint8Array.of(ARRAY_FORM, PACKED_I8, MUTABLE)

/** Whether V8 has arrays: it accepts the smallest module with one. */
export const hasArrays = WebAssembly.validate(
  Uint8Array.of(...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, SECTION.type, ARRAY.length + 1, 1, ...ARRAY]),
)

/** A reference that is not null. */
const REFERENCE = 0x64
const [ARRAY_NEW, ARRAY_GET, ARRAY_SET] = [
  [0xfb, 7],
  [0xfb, 13],
  [0xfb, 14],
] as const

/** What a module records of its writes: the blocks that they reach, the lowest address, or nothing. */
export type Records = 'blocks' | 'lowest' | 'nothing'

export interface AddedGlobal {
  readonly type: Uint8Array
  readonly value: Uint8Array
}

/** A global with a number that changes. */
export function changingNumber(value: number): AddedGlobal {
  return { type: Uint8Array.of(I32, MUTABLE), value: Uint8Array.of(...constant(value), CODE.end) }
}

/** What a module needs to record its writes. Each item is behind those of the same kind. */
export interface WriteRecorder {
  readonly records: Records
  /** Writes from this address on are not recorded. */
  readonly untrackedFrom: number
  /** The encoded type and value of its global. */
  readonly global: AddedGlobal
  /** Encoded types. */
  readonly types: readonly Uint8Array[]
  /** The indices of the types of its functions. */
  readonly functions: readonly number[]
  readonly bodies: readonly Body[]
  /** Items for the host. */
  readonly exported: readonly { readonly name: string; readonly kind: ItemKind; readonly index: number }[]
  /** The view of the module with the added types and functions, but with the old code. */
  readonly view: ModuleView
  openRewriter(): Rewriter
}

/** Marks the blocks that are written. */
export class BlockMarks implements WriteRecorder {
  readonly records = 'blocks'
  readonly untrackedFrom = Number.POSITIVE_INFINITY
  readonly global: AddedGlobal
  readonly types: readonly Uint8Array[]
  readonly functions: readonly number[]
  readonly bodies: readonly Body[]
  readonly exported: WriteRecorder['exported']
  readonly view: ModuleView
  readonly #mask: readonly number[]
  readonly #marks: readonly number[]
  readonly #set: readonly number[]
  readonly #markRange: readonly number[]

  /**
   * @param marks - The index of the added global.
   * @param bytes - The size of the largest memory that is restored: a write beyond it marks another block.
   */
  constructor(view: ModuleView, marks: number, bytes: number) {
    const { types, functions } = view
    const [array, rangeType, searchType] = [types.count, types.count + 1, types.count + 2]
    const count = 2 ** Math.ceil(Math.log2(Math.max(bytes >> WRITTEN_BLOCK_BITS, 1)))
    this.#mask = constant(count - 1)
    this.#marks = [CODE.globalGet, ...leb(marks)]
    this.#set = [...ARRAY_SET, ...leb(array)]
    this.#markRange = [CODE.call, ...leb(functions.length)]
    const isMarked = [...this.#marks, CODE.localGet, 0, ...ARRAY_GET, ...leb(array)]
    const bodies = [
      this.#renderMarkRange(count),
      this.#renderSearch([...isMarked, CODE.branchIf, 1]),
      this.#renderSearch([
        ...[...isMarked, CODE.equalZero, CODE.branchIf, 1],
        ...[...this.#marks, CODE.localGet, 0, ...constant(0), ...this.#set],
      ]),
    ]
    const numbers = [I32, I32]
    const range = Uint8Array.of(FUNCTION_FORM, numbers.length, ...numbers, 0)
    const search = Uint8Array.of(FUNCTION_FORM, numbers.length, ...numbers, 1, I32)
    this.global = {
      type: Uint8Array.of(REFERENCE, ...constant(array).slice(1), 0), // the index of a type is signed here
      value: Uint8Array.of(...constant(count), ...ARRAY_NEW, ...leb(array), CODE.end),
    }
    this.types = [ARRAY, range, search]
    this.functions = [rangeType, searchType, searchType]
    this.bodies = bodies.map((code) => ({ bytes: Uint8Array.from(code), rare: [] }))
    const names = [RESET_EXPORT.markWritten, RESET_EXPORT.findWritten, RESET_EXPORT.clearWritten]
    this.exported = names.map((name, place) => ({ name, kind: 'function', index: functions.length + place }))
    const i32 = numberType(I32)
    this.view = {
      ...view,
      types: types.with([
        undefined,
        { params: [i32, i32], results: [] },
        { params: [i32, i32], results: [i32] },
      ]),
      functions: [...functions, ...this.functions],
    }
  }

  openRewriter(): Rewriter {
    return new WriteRewriter(isNear, (address, offset, length) => {
      if (length) return [...address, ...length, ...this.#markRange]
      // Beyond 32 bits it wraps, and the write itself traps.
      const target = offset === 0 ? address : [...address, ...constant(offset), CODE.add]
      return [...this.#marks, ...target, ...this.#block(), ...constant(1), ...this.#set]
    })
  }

  #block(): readonly number[] {
    return [...constant(WRITTEN_BLOCK_BITS), CODE.shiftRightUnsigned, ...this.#mask, CODE.and]
  }

  /** Marks the blocks from an address on, and one more, for a length. */
  #renderMarkRange(count: number): readonly number[] {
    const [address, length] = [0, 1]
    const blocks = [CODE.localGet, length, ...constant(WRITTEN_BLOCK_BITS), CODE.shiftRightUnsigned]
    return [
      0, // locals
      // length = min(length / block + 2, count)
      ...[...blocks, ...constant(2), CODE.add, CODE.localTee, length],
      ...[...constant(count), CODE.localGet, length, ...constant(count), CODE.lessUnsigned],
      ...[CODE.select, CODE.localSet, length],
      ...[CODE.loop, NO_RESULT],
      ...[...this.#marks, CODE.localGet, address, ...this.#block(), ...constant(1), ...this.#set],
      ...[CODE.localGet, address, ...constant(1 << WRITTEN_BLOCK_BITS), CODE.add, CODE.localSet, address],
      ...[CODE.localGet, length, ...constant(1), CODE.subtract, CODE.localTee, length, CODE.branchIf, 0],
      ...[CODE.end, CODE.end],
    ]
  }

  /** Looks at the marks of blocks from one number to another. @param step - Code that may leave. @returns where it ended. */
  #renderSearch(step: readonly number[]): readonly number[] {
    const [at, end] = [0, 1]
    return [
      0, // locals
      ...[CODE.block, NO_RESULT, CODE.loop, NO_RESULT],
      ...[CODE.localGet, at, CODE.localGet, end, CODE.lessUnsigned, CODE.equalZero, CODE.branchIf, 1],
      ...step,
      ...[CODE.localGet, at, ...constant(1), CODE.add, CODE.localSet, at, CODE.branch, 0],
      ...[CODE.end, CODE.end, CODE.localGet, at, CODE.end],
    ]
  }
}

/** Records the lowest written address. Worthwhile if a large stack is below the data: few calls use more than its end. */
export class LowestWrite implements WriteRecorder {
  readonly records = 'lowest'
  readonly global: AddedGlobal
  readonly types: readonly Uint8Array[] = []
  readonly functions: readonly number[] = []
  readonly bodies: readonly Body[] = []
  readonly exported: WriteRecorder['exported']
  readonly view: ModuleView
  readonly untrackedFrom: number
  readonly #global: readonly number[]

  /**
   * @param lowest - The index of the added global.
   * @param untrackedFrom - Writes from this address on are not recorded.
   */
  constructor(view: ModuleView, lowest: number, untrackedFrom: number) {
    this.view = view
    this.untrackedFrom = untrackedFrom
    this.#global = [...leb(lowest)]
    this.global = changingNumber(untrackedFrom)
    this.exported = [{ name: RESET_EXPORT.lowest, kind: 'global', index: lowest }]
  }

  openRewriter(): Rewriter {
    return new WriteRewriter(isAbove, (address, offset) => {
      const target = offset === 0 ? address : [...address, ...constant(offset), CODE.add]
      return [
        ...[...target, CODE.globalGet, ...this.#global, CODE.lessUnsigned],
        ...[CODE.if, NO_RESULT, ...target, CODE.globalSet, ...this.#global, CODE.end],
      ]
    })
  }
}

/**
 * Code that records a write.
 *
 * @param address - Code for the address, without the offset.
 * @param length - Code for the length, if the instruction has one. Else it writes at most 16 bytes.
 */
type Recording = (
  address: readonly number[],
  offset: number,
  length: readonly number[] | undefined,
) => readonly number[]

/** Whether a write is in a block that is restored with that of another one, at the same address with another offset. */
const isNear = (recorded: number, offset: number) =>
  Math.abs(offset - recorded) <= RESTORED_AROUND - MAX_STORE_BYTES

/** Whether a write is not lower than another one. */
const isAbove = (recorded: number, offset: number) => offset >= recorded

/** Inserts code before each write that is not known. */
class WriteRewriter implements Rewriter {
  readonly #record: Recording
  readonly #bases: WrittenBases
  #left = MAX_WRITE_INSTRUCTIONS

  constructor(covers: (recorded: number, offset: number) => boolean, record: Recording) {
    this.#record = record
    this.#bases = new WrittenBases(covers)
  }

  begin(_called: ReadonlySet<number>, _place: number, sets: ReadonlyMap<number, number>): void {
    this.#bases.begin(sets)
  }

  rewrite(instruction: Instruction, temporaries: Temporaries): ReturnType<Rewrite> {
    const other = this.#rewrite(instruction, temporaries)
    this.#bases.pass(instruction)
    return other
  }

  #rewrite(instruction: Instruction, temporaries: Temporaries): ReturnType<Rewrite> {
    const types = valuesOf(instruction.code)
    if (!types) return undefined
    if (!isFill(instruction.code) && this.#bases.knows(offsetOf(instruction))) return undefined
    return this.#left-- === 0 ? null : recorded(instruction, types, this.#record, temporaries)
  }
}

/** The rewritten module may be about 4 MiB larger. */
const MAX_WRITE_INSTRUCTIONS = 150_000

/** The longest write of an instruction without a length, in bytes. */
const MAX_STORE_BYTES = 16

function recorded(
  instruction: Instruction,
  types: readonly number[],
  record: Recording,
  temporaries: Temporaries,
): readonly number[] {
  const address = [CODE.localGet, ...leb(temporaries.local(I32))]
  const values = types.map((type, place) => leb(temporaries.local(type, place + 1)))
  const getValues = values.map((value) => [CODE.localGet, ...value])
  return [
    ...values.toReversed().flatMap((value) => [CODE.localSet, ...value]),
    ...[CODE.localSet, ...address.slice(1)],
    ...record(address, offsetOf(instruction), isFill(instruction.code) ? getValues.at(-1) : undefined),
    ...address,
    ...getValues.flat(),
    ...instruction.bytes,
  ]
}

/** Sizes of the stores, in the order of their codes. */
const STORES: readonly number[] = [I32, I64, F32, F64, I32, I32, I64, I64, I64]

/** Types that a write takes from the stack above its address; undefined if the instruction is not a write. */
function valuesOf(code: number): readonly number[] | undefined {
  if (code <= CODE.lastStore) {
    const store = STORES[code - CODE.firstStore]
    return store === undefined ? undefined : [store]
  }
  if (isFill(code)) return [I32, I32]
  const isLaneStore = code >= CODE.firstLaneStore && code <= CODE.lastLaneStore
  return isLaneStore || code === CODE.vectorStore ? [V128] : undefined
}

/** Instructions that copy into or fill a memory, with the position of the length. */
function isFill(code: number): boolean {
  return code === CODE.memoryInit || code === CODE.memoryCopy || code === CODE.memoryFill
}

/** The offset added to the address. The memory index may be explicit even for the only memory. */
function offsetOf(instruction: Instruction): number {
  if (isFill(instruction.code)) return 0
  const reader = instruction.immediates()
  skipAlignment(reader)
  return reader.u32()
}
