import { concat, HEADER_BYTES, leb, Reader } from './binary.ts'
import { Reader as ModuleReader, SECTION } from './module-reader.ts'

/** A section of a module, of which another module can be made. */
export interface Section {
  readonly id: number
  /** With its id and size. */
  readonly whole: Uint8Array
  readonly content: Uint8Array
}

/**
 * The sections of a module, in order.
 *
 * @param name - The plug-in's, for messages.
 * @throws {@link PluginInvalidError} if the bytes end in the middle of a section.
 */
export function readSections(bytes: Uint8Array, name: string): Section[] {
  const reader = new Reader(bytes, name)
  const sections: Section[] = []
  reader.at = HEADER_BYTES
  while (reader.at < bytes.length) {
    const start = reader.at
    const id = reader.byte()
    const size = Number(reader.leb())
    const content = bytes.subarray(reader.at, reader.at + size)
    reader.at += size
    sections.push({ id, whole: reader.since(start), content })
  }
  return sections
}

/** @returns the module with other contents for some sections, by their ids; those that it does not have are added. */
export function withSections(
  header: Uint8Array,
  sections: readonly Section[],
  contents: ReadonlyMap<number, Uint8Array>,
): Uint8Array {
  const left = new Map(contents)
  const parts = sections.flatMap(({ id, whole }) => {
    const before = id === SECTION.custom ? [] : takeBefore(left, id)
    const content = left.get(id)
    left.delete(id)
    return [...before, content ? renderSection(id, content) : whole]
  })
  return concat([header, ...parts, ...takeBefore(left, undefined)])
}

/** The order of sections, which is not that of their ids. Custom ones may be anywhere. */
const ORDER: readonly number[] = [
  ...[SECTION.type, SECTION.import, SECTION.function, SECTION.table, SECTION.memory, SECTION.tag],
  ...[SECTION.global, SECTION.export, SECTION.start, SECTION.element, SECTION.dataCount],
  ...[SECTION.code, SECTION.data],
]

/** Takes out those that come before the section of this id, rendered. */
function takeBefore(contents: Map<number, Uint8Array>, id: number | undefined): Uint8Array[] {
  const ids = ORDER.slice(0, id === undefined ? ORDER.length : ORDER.indexOf(id))
  return ids.flatMap((each) => {
    const content = contents.get(each)
    contents.delete(each)
    return content ? [renderSection(each, content)] : []
  })
}

function renderSection(id: number, content: Uint8Array): Uint8Array {
  return concat([Uint8Array.of(id), leb(content.length), content])
}

/** An entry of the section of exports. */
export function renderExport(name: string, kind: number, index: number): Uint8Array {
  const utf8 = Buffer.from(name)
  return concat([leb(utf8.length), utf8, Uint8Array.of(kind), leb(index)])
}

/** The content of a section that is a list, with more items. */
export function append(content: Uint8Array | undefined, items: readonly Uint8Array[]): Uint8Array {
  const reader = new ModuleReader(content ?? Uint8Array.of(0))
  const count = reader.u32()
  return concat([leb(count + items.length), content?.subarray(reader.at) ?? new Uint8Array(), ...items])
}
