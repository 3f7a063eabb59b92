import { PluginInvalidError } from '../errors/errors.ts'
import { concat, HEADER_BYTES, leb, Reader } from './binary.ts'
import { skipExpression } from './instructions.ts'
import { Reader as ModuleReader } from './module-reader.ts'
import { readSections } from './sections.ts'

const TABLE_SECTION = 4
const MEMORY_SECTION = 5

/** Bits of limits: a maximum follows, shared between threads, addresses of 64 bits. */
const LIMITS = { max: 1, shared: 2, index64: 4 }

/** Most entries of a module's tables together. V8 allows ten million for each of a hundred thousand tables. */
const MAX_TABLE_ENTRIES = 1_000_000n

/**
 * Lowers the maxima of the memories and tables that a module defines, so that `memory.grow` and `table.grow` answer -1
 * to a guest that wants more: V8 has no other limit for one guest. Several memories share the limit. What the module
 * imports has the limit of the one that defines it.
 *
 * @param bytes - Need not be valid: what is not is left to the compiler to refuse, or refused here.
 * @param maxPages - Of 64 KiB.
 * @param name - The plug-in's, for messages.
 * @returns the same bytes if there is nothing to lower.
 * @throws {@link PluginInvalidError} if a module begins with more than the limit, or cannot be understood.
 */
export function capMemory(bytes: Uint8Array, maxPages: number, name: string): Uint8Array {
  const reader = new Reader(bytes, name)
  const parts: Uint8Array[] = []
  let copied = 0
  reader.at = HEADER_BYTES
  while (reader.at < bytes.length) {
    const start = reader.at
    const id = reader.byte()
    const size = Number(reader.leb())
    const end = reader.at + size
    if (end > bytes.length) throw new PluginInvalidError(name, 'a section goes beyond its end')
    if (id === MEMORY_SECTION || id === TABLE_SECTION) {
      const limited = id === MEMORY_SECTION ? memories(reader, end, name) : tables(bytes, reader, end, name)
      const most = id === MEMORY_SECTION ? BigInt(maxPages) : MAX_TABLE_ENTRIES
      const unit = id === MEMORY_SECTION ? 'pages of memory (64 KiB each)' : 'table entries'
      const section = render(limited, most, unit, name)
      parts.push(bytes.subarray(copied, start), Uint8Array.of(id), leb(section.length), section)
      copied = end
    }
    reader.at = end
  }
  if (parts.length === 0) return bytes
  return concat([...parts, bytes.subarray(copied)])
}

/**
 * Whether a module has a table with an initial value, which engines before WebAssembly 3.0 do not know.
 *
 * @param capped - What {@link capMemory} returned.
 */
export function hasTableValue(capped: Uint8Array, name: string): boolean {
  const section = readSections(capped, name).find(({ id }) => id === TABLE_SECTION)?.content
  if (!section) return false
  return tables(section, new Reader(section, name), section.length, name).some(
    ({ value }) => value.length > 0,
  )
}

/** A memory or a table. */
interface Limited {
  /** What stands before its limits. */
  readonly type: Uint8Array
  readonly flags: number
  readonly min: bigint
  readonly max: bigint | undefined
  /** What stands behind its limits. */
  readonly value: Uint8Array
}

const NOTHING = new Uint8Array()

function memories(reader: Reader, end: number, name: string): Limited[] {
  return entries(reader, end, name, 'memory', () => ({
    type: NOTHING,
    ...readLimits(reader, name, 'memory'),
    value: NOTHING,
  }))
}

const NULLABLE_REFERENCE = 0x63
const REFERENCE = 0x64
const WITH_INITIAL_VALUE = 0x40

function tables(bytes: Uint8Array, reader: Reader, end: number, name: string): Limited[] {
  return entries(reader, end, name, 'table', () => {
    const start = reader.at
    const first = reader.byte()
    const hasValue = first === WITH_INITIAL_VALUE
    if (hasValue && reader.byte() !== 0) throw unclear(name, 'table')
    const type = hasValue ? reader.byte() : first
    if (type === NULLABLE_REFERENCE || type === REFERENCE) reader.leb() // heap type
    const before = reader.since(start)
    const limits = readLimits(reader, name, 'table')
    return { type: before, ...limits, value: hasValue ? readValue(bytes, reader, end, name) : NOTHING }
  })
}

/** A constant expression. The engine reads the same bytes: what it would read otherwise it refuses. */
function readValue(bytes: Uint8Array, reader: Reader, end: number, name: string): Uint8Array {
  const start = reader.at
  const value = new ModuleReader(bytes.subarray(0, end), start)
  if (!skipExpression(value)) throw unclear(name, 'table')
  reader.at = value.at
  return reader.since(start)
}

function unclear(name: string, kind: string): Error {
  return new PluginInvalidError(name, `its ${kind} section cannot be understood`)
}

/** The content of a section of memories or tables. */
function entries(reader: Reader, end: number, name: string, kind: string, read: () => Limited): Limited[] {
  const count = Number(reader.leb())
  const found: Limited[] = []
  while (reader.at < end) found.push(read())
  if (reader.at !== end || found.length !== count) throw unclear(name, kind)
  return found
}

function readLimits(reader: Reader, name: string, kind: string): Pick<Limited, 'flags' | 'min' | 'max'> {
  const flags = reader.byte()
  if (flags > (LIMITS.max | LIMITS.shared | LIMITS.index64)) {
    throw new PluginInvalidError(name, `it has a ${kind} of an unknown kind (${flags})`)
  }
  return { flags, min: reader.leb(), max: flags & LIMITS.max ? reader.leb() : undefined }
}

/** Writes the section anew. What is left when each has what it begins with is shared out. */
function render(limited: readonly Limited[], most: bigint, unit: string, name: string): Uint8Array {
  const needed = limited.reduce((sum, { min }) => sum + min, 0n)
  if (needed > most) throw new PluginInvalidError(name, `it needs ${needed} ${unit}, and may have ${most}`)
  const share = limited.length > 0 ? (most - needed) / BigInt(limited.length) : 0n
  const parts = limited.flatMap(({ type, flags, min, max, value }) => {
    const cap = min + share
    return [
      type,
      Uint8Array.of(flags | LIMITS.max),
      leb(min),
      leb(max !== undefined && max < cap ? max : cap),
      value,
    ]
  })
  return concat([leb(limited.length), ...parts])
}
