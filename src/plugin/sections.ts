import { concat, HEADER_BYTES, leb, Reader } from './binary.ts'

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

/** @returns a section with this content, with its id and size. */
export function renderSection(id: number, content: Uint8Array): Uint8Array {
  return concat([Uint8Array.of(id), leb(content.length), content])
}
