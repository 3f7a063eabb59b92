import { concat, HEADER_BYTES, leb, Reader } from './binary.ts'
import { countImports } from './module.ts'
import { KIND, SECTION } from './module-reader.ts'
import { readSections, renderSection } from './sections.ts'

/** What a module whose memory is imported imports it by. */
export const MEMORY_IMPORT = { namespace: 'wasm-serve:fresh', name: 'memory' }

/** Sizes of a memory, in pages of 64 KiB. */
export interface MemoryLimits {
  readonly initial: number
  readonly maximum: number
}

/** A module that imports the memory that it used to define. */
export interface MemoryImporter {
  readonly bytes: Uint8Array
  /** The memory must have exactly these, or the module could tell that it is not its own, unless it counts its pages. */
  readonly limits: MemoryLimits
}

const WITH_MAXIMUM = 1
const MEMORY = 2

/**
 * Makes a module import the memory that it defines, so that a host can give it one that was used before. Nothing else
 * in the module changes: memories that are imported come first, so that a lone one keeps its number.
 *
 * @param bytes - A valid module whose memory was capped: it has a maximum.
 * @param name - The plug-in's, for messages.
 * @returns undefined if it does not have exactly one memory, or one that it imports, is shared or has 64-bit addresses.
 */
export function importMemory(bytes: Uint8Array, name: string): MemoryImporter | undefined {
  const sections = readSections(bytes, name)
  const memory = sections.find(({ id }) => id === SECTION.memory)
  const limits = memory && readLimits(memory.content, name)
  if (!limits || countImports(bytes, KIND.memory) > 0) return undefined

  const imports = sections.find(({ id }) => id === SECTION.import)
  const section = renderSection(SECTION.import, addImport(imports?.content, limits, name))
  // Types come before imports, everything else after them.
  const place = sections.find(({ id }) => id !== SECTION.custom && id !== SECTION.type)
  const parts = sections.flatMap((each) => [
    ...(each === place ? [section] : []),
    ...(each === memory || each === imports ? [] : [each.whole]),
  ])
  return { bytes: concat([bytes.subarray(0, HEADER_BYTES), ...parts]), limits }
}

function readLimits(content: Uint8Array, name: string): MemoryLimits | undefined {
  const reader = new Reader(content, name)
  const isLone = reader.leb() === 1n
  if (!isLone || reader.byte() !== WITH_MAXIMUM) return undefined
  return { initial: Number(reader.leb()), maximum: Number(reader.leb()) }
}

function addImport(
  content: Uint8Array | undefined,
  { initial, maximum }: MemoryLimits,
  name: string,
): Uint8Array {
  const reader = new Reader(content ?? Uint8Array.of(0), name)
  const count = reader.leb()
  return concat([
    leb(count + 1n),
    content?.subarray(reader.at) ?? new Uint8Array(),
    renderName(MEMORY_IMPORT.namespace),
    renderName(MEMORY_IMPORT.name),
    Uint8Array.of(MEMORY, WITH_MAXIMUM),
    leb(initial),
    leb(maximum),
  ])
}

function renderName(text: string): Uint8Array {
  const utf8 = Buffer.from(text)
  return concat([leb(utf8.length), utf8])
}
