import { leb } from './binary.ts'
import type { Instruction, Rewrite, Temporaries } from './code-rewriter.ts'
import { BULK, constant, F32, F64, I32, I64, OPCODE, PREFIX, V128 } from './opcodes.ts'

/**
 * Makes a module remember the lowest address that it writes, so that what lies below need not be wiped. Worth it where
 * a large stack lies below the data: few calls use more than its end.
 *
 * @param lowest - A global with an address: all that the module writes behind it goes by unnoticed.
 */
export function trackLowest(lowest: number): Rewrite {
  let left = MOST_PLACES
  return (instruction, temporaries) => {
    if (instruction.opcode === PREFIX.atomics) return writesAtomically(instruction) ? null : undefined
    const operands = operandsOf(instruction)
    if (!operands) return undefined
    if (left-- === 0) return null
    return tracked(instruction, operands, lowest, temporaries)
  }
}

/** What a module may be blown up to: about 4 MiB more. */
const MOST_PLACES = 150_000

/** What a write takes from the stack above its address. */
interface Operands {
  readonly types: readonly number[]
  /** Added to the address. */
  readonly offset: number
}

const STORES: readonly number[] = [I32, I64, F32, F64, I32, I32, I64, I64, I64]
const FIRST_STORE = 0x36

/** Vector operations that write. */
const VECTOR_STORE = 0x0b
const FIRST_LANE_STORE = 0x58
const LAST_LANE_STORE = 0x5b

/** Loads, waits and fences come before all atomic operations that write. */
const FIRST_ATOMIC_WRITE = 0x17

function writesAtomically({ operation }: Instruction): boolean {
  return operation >= FIRST_ATOMIC_WRITE
}

function operandsOf(instruction: Instruction): Operands | undefined {
  const { opcode, operation } = instruction
  const store = opcode >= FIRST_STORE ? STORES[opcode - FIRST_STORE] : undefined
  if (store !== undefined) return { types: [store], offset: offsetOf(instruction) }
  if (opcode === PREFIX.bulk && FILLS.has(operation)) return { types: [I32, I32], offset: 0 }
  const isVectorStore =
    operation === VECTOR_STORE || (operation >= FIRST_LANE_STORE && operation <= LAST_LANE_STORE)
  return opcode === PREFIX.vectors && isVectorStore
    ? { types: [V128], offset: offsetOf(instruction) }
    : undefined
}

/** What of a memory or of data is put into a memory, and how much. */
const FILLS: ReadonlySet<number> = new Set([BULK.memoryInit, BULK.memoryCopy, BULK.memoryFill])

/** Of the only memory, though its number may be written. */
function offsetOf(instruction: Instruction): number {
  const reader = instruction.immediates()
  if (reader.u32() & HAS_MEMORY_INDEX) reader.skipNumber()
  return reader.u32()
}

const HAS_MEMORY_INDEX = 0x40

function tracked(
  { bytes }: Instruction,
  { types, offset }: Operands,
  lowest: number,
  temporaries: Temporaries,
): readonly number[] {
  const address = leb(temporaries.local(I32))
  const values = types.map((type, place) => leb(temporaries.local(type, place + 1)))
  // Beyond 32 bits it wraps, and what was to be written traps.
  const target = offset === 0 ? [] : [...constant(offset), OPCODE.add]
  return [
    ...values.toReversed().flatMap((value) => [OPCODE.localSet, ...value]),
    ...[OPCODE.localTee, ...address, ...target, OPCODE.globalGet, ...leb(lowest), OPCODE.lessUnsigned],
    ...[OPCODE.if, OPCODE.noResult],
    ...[OPCODE.localGet, ...address, ...target, OPCODE.globalSet, ...leb(lowest), OPCODE.end],
    ...[OPCODE.localGet, ...address],
    ...values.flatMap((value) => [OPCODE.localGet, ...value]),
    ...bytes,
  ]
}
