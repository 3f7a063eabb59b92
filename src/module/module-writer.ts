import { ByteReader, concat, leb } from './bytes.ts'
import {
  HINTS_NAME,
  ITEM_KINDS,
  type ItemKind,
  MODULE_HEADER_BYTES,
  type ModuleView,
  SECTION,
  SECTION_ORDER,
} from './module-view.ts'

/** Other contents for some sections of a module, by their ids. */
export type SectionContents = ReadonlyMap<number, Uint8Array>

/** The content of a section; undefined if the module has none. */
function sectionContent({ bytes, sections }: ModuleView, wanted: number): Uint8Array | undefined {
  const section = sections.find(({ id }) => id === wanted)
  return section && bytes.subarray(section.content, section.end)
}

/** @returns the module with some sections replaced or added, without branch hints for code that was replaced. */
export function withContents({ bytes, sections }: ModuleView, contents: SectionContents): Uint8Array {
  if (contents.size === 0) return bytes
  const left = new Map(contents)
  const kept = contents.has(SECTION.code) ? sections.filter(({ id }) => id !== SECTION.hints) : sections
  const parts = kept.flatMap(({ id, start, end }) => {
    const before = id === SECTION.custom || id === SECTION.hints ? [] : takeBefore(left, id)
    const content = left.get(id)
    left.delete(id)
    return [...before, content ? renderSection(id, content) : bytes.subarray(start, end)]
  })
  return concat([bytes.subarray(0, MODULE_HEADER_BYTES), ...parts, ...takeBefore(left, undefined)])
}

/**
 * The content of a section that is a list, with more items.
 *
 * @param contents - May have the section; otherwise the module's is used.
 */
export function appendItems(
  view: ModuleView,
  id: number,
  items: readonly Uint8Array[],
  contents?: SectionContents,
): Uint8Array {
  const content = contents?.get(id) ?? sectionContent(view, id) ?? NO_ITEMS
  const reader = new ByteReader(content, 0, content.length, view.name)
  const count = reader.u32()
  return concat([leb(count + items.length), content.subarray(reader.at), ...items])
}

const NO_ITEMS = Uint8Array.of(0)

/** Encodes a list of encoded items. */
export function renderItems(items: readonly Uint8Array[]): Uint8Array {
  return concat([leb(items.length), ...items])
}

/** An entry of the section of exports. */
export function renderExport(name: string, kind: ItemKind, index: number): Uint8Array {
  const utf8 = Buffer.from(name)
  return concat([leb(utf8.length), utf8, Uint8Array.of(ITEM_KINDS.indexOf(kind)), leb(index)])
}

/** Removes and encodes the sections that precede this id. */
function takeBefore(contents: Map<number, Uint8Array>, id: number | undefined): Uint8Array[] {
  const ids = SECTION_ORDER.slice(0, id === undefined ? undefined : SECTION_ORDER.indexOf(id))
  return ids.flatMap((each) => {
    const content = contents.get(each)
    contents.delete(each)
    return content ? [renderSection(each, content)] : []
  })
}

function renderSection(id: number, content: Uint8Array): Uint8Array {
  if (id === SECTION.hints) {
    const name = Buffer.from(HINTS_NAME)
    return renderSection(SECTION.custom, concat([leb(name.length), name, content]))
  }
  return concat([Uint8Array.of(id), leb(content.length), content])
}
