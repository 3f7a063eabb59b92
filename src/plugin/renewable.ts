import { HEADER_BYTES } from './binary.ts'
import { type Instruction, type Rewrite, rewriteCode } from './code-rewriter.ts'
import { skipExpression } from './instructions.ts'
import { trackLowest } from './lowest-store.ts'
import { countImports, numericFunctions } from './module.ts'
import { KIND, Reader, SECTION } from './module-reader.ts'
import { BULK, constant, F32, F64, I32, I64, OPCODE, PREFIX } from './opcodes.ts'
import { countPages } from './page-count.ts'
import { append, readSections, renderExport, withSections } from './sections.ts'

/** A module that exports all that its functions can change, so that a host can put it back. */
export interface Renewable {
  readonly bytes: Uint8Array
  /** How many of its globals can change: they are exported as {@link RENEWABLE_EXPORT} says. */
  readonly globals: number
  /** From here on it does not say what it wrote; 0: it says nothing. */
  readonly untrackedFrom: number
}

const OURS = 'wasm-serve:'

/** Names of what a renewable module exports besides its own. */
export const RENEWABLE_EXPORT = {
  memory: `${OURS}memory`,
  /** The lowest address that was written; of those from `untrackedFrom` on it says nothing. */
  lowest: `${OURS}lowest`,
  global: (index: number) => `${OURS}global ${index}`,
} as const

/**
 * Makes a module whose instances can be made as new: its memory and its globals are exported, it counts the pages of
 * its memory (see {@link countPages}), and one with a large stack below its data says how far down it wrote.
 *
 * @param bytes - One that the engine accepts, and whose memory was capped: it has a maximum.
 * @param name - The plug-in's, for messages.
 * @param tracks - Whether it may be made to say what it wrote, if that is worth it.
 * @returns undefined if it has several memories, or one that it imports, or can change what cannot be put back: tables,
 * data that it drops, references, vectors in globals; or if it exports something by names of ours. It may be more than
 * V8 accepts.
 */
export function makeRenewable(bytes: Uint8Array, name: string, tracks = true): Renewable | undefined {
  const sections = readSections(bytes, name)
  const content = (wanted: number) => sections.find(({ id }) => id === wanted)?.content
  const limits = readLimits(content(SECTION.memory))
  const globals = readGlobals(content(SECTION.global), countImports(bytes, KIND.global))
  const functions = numericFunctions(bytes)
  if (!limits || !globals || !functions || countImports(bytes, KIND.memory) > 0) return undefined
  if (exportsOurs(content(SECTION.export))) return undefined

  const untrackedFrom = tracks ? firstData(content(SECTION.data)) : 0
  const isTracked = untrackedFrom >= LEAST_TRACKED
  const [pages, more, lowest] = [globals.next, globals.next + 1, globals.next + 2]
  const rewrites = [refuseLasting, countPages({ pages, more }, limits.maximum)]
  if (isTracked) rewrites.push(trackLowest(lowest))
  const code = content(SECTION.code)
  const params = functions.map((signature) => signature.params.length)
  const rewritten = code && rewriteCode(code, params, firstOf(rewrites))
  if (code && !rewritten) return undefined

  const added = [limits.initial, 0, ...(isTracked ? [untrackedFrom] : [])].map(mutableNumber)
  const changing = [...globals.mutable, pages]
  if (changing.length > MOST_GLOBALS) return undefined
  const exported = [
    ...(limits.hasMemory ? [renderExport(RENEWABLE_EXPORT.memory, KIND.memory, 0)] : []),
    ...changing.map((index, place) => renderExport(RENEWABLE_EXPORT.global(place), KIND.global, index)),
    ...(isTracked ? [renderExport(RENEWABLE_EXPORT.lowest, KIND.global, lowest)] : []),
  ]
  const contents = new Map([
    [SECTION.global, append(content(SECTION.global), added)],
    [SECTION.export, append(content(SECTION.export), exported)],
    ...(rewritten ? ([[SECTION.code, rewritten]] as const) : []),
  ])
  const renewable = withSections(bytes.subarray(0, HEADER_BYTES), sections, contents)
  return { bytes: renewable, globals: changing.length, untrackedFrom: isTracked ? untrackedFrom : 0 }
}

/** Bytes below the data. To wipe fewer costs less than 10 us. */
const LEAST_TRACKED = 262_144

/** To put back so many costs about as much as a new instance. */
const MOST_GLOBALS = 200

/** The first that has something to say of an instruction. */
function firstOf(rewrites: readonly Rewrite[]): Rewrite {
  return (instruction, temporaries) => {
    for (const rewrite of rewrites) {
      const other = rewrite(instruction, temporaries)
      if (other !== undefined) return other
    }
    return undefined
  }
}

/** Nothing can stand for what changes something that cannot be put back. */
function refuseLasting({ opcode, operation }: Instruction): null | undefined {
  const isLasting =
    opcode === OPCODE.tableSet ||
    opcode === PREFIX.references ||
    (opcode === PREFIX.bulk && LASTING.has(operation))
  return isLasting ? null : undefined
}

const LASTING: ReadonlySet<number> = new Set([
  ...[BULK.dataDrop, BULK.elementDrop],
  ...[BULK.tableInit, BULK.tableCopy, BULK.tableGrow, BULK.tableFill],
])

const WITH_MAXIMUM = 1

interface MemoryLimits {
  readonly hasMemory: boolean
  readonly initial: number
  readonly maximum: number
}

/** Of no memory, or a lone one, not shared, with addresses of 32 bits. */
function readLimits(content: Uint8Array | undefined): MemoryLimits | undefined {
  const reader = new Reader(content ?? Uint8Array.of(0))
  const count = reader.u32()
  if (count === 0) return { hasMemory: false, initial: 0, maximum: 0 }
  if (count > 1 || reader.byte() !== WITH_MAXIMUM) return undefined
  return { hasMemory: true, initial: reader.u32(), maximum: reader.u32() }
}

function exportsOurs(content: Uint8Array | undefined): boolean {
  const reader = new Reader(content ?? Uint8Array.of(0))
  const names = reader.list(() => {
    const name = reader.name()
    reader.byte() // kind
    reader.u32() // index
    return name
  })
  return names.some((name) => name.startsWith(OURS))
}

interface Globals {
  /** Numbers of those that can change. */
  readonly mutable: readonly number[]
  /** The number that another one would get. */
  readonly next: number
}

const NUMBERS: ReadonlySet<number> = new Set([I32, I64, F32, F64])

/** @returns undefined if one is no number, which JavaScript could not read or put back, or cannot be understood. */
function readGlobals(content: Uint8Array | undefined, imported: number): Globals | undefined {
  const reader = new Reader(content ?? Uint8Array.of(0))
  const count = reader.u32()
  const mutable: number[] = []
  for (let index = imported; index < imported + count; index++) {
    const isNumber = NUMBERS.has(reader.byte())
    if (reader.byte() === MUTABLE) mutable.push(index)
    if (!isNumber || !skipExpression(reader)) return undefined
  }
  return { mutable, next: imported + count }
}

/** The lowest address at which a module is born with data; 0 if that cannot be told. */
function firstData(content: Uint8Array | undefined): number {
  if (!content) return 0
  const reader = new Reader(content)
  const places = reader.list(() => {
    const flags = reader.u32()
    if (flags === PASSIVE) return skipData(reader, Number.POSITIVE_INFINITY)
    if (flags !== 0 || reader.byte() !== OPCODE.constant) return 0
    const address = reader.u32()
    return reader.byte() === OPCODE.end ? skipData(reader, address) : 0
  })
  const first = places.reduce((lowest, place) => Math.min(lowest, place), Number.POSITIVE_INFINITY)
  return Number.isFinite(first) ? first : 0
}

const PASSIVE = 1

function skipData<Result>(reader: Reader, result: Result): Result {
  reader.at += reader.u32()
  return result
}

const MUTABLE = 1

/** A global with an initial value. */
function mutableNumber(value: number): Uint8Array {
  return Uint8Array.of(I32, MUTABLE, ...constant(value), OPCODE.end)
}
