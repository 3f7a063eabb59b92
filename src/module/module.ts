import { isUtf8 } from 'node:buffer'
import { PluginInvalidError } from '../errors/errors.ts'
import { ByteReader } from './bytes.ts'
import {
  HINTS_NAME,
  MODULE_HEADER_BYTES,
  type ModuleView,
  SECTION,
  SECTION_ORDER,
  type SectionRange,
} from './module-view.ts'
import { type ReadOptions, SectionReader } from './section-reader.ts'

/**
 * Parses a whole module before it is compiled. It checks that the compilation cost is within the limits, and that
 * allocations outside of the module's memory are bounded. One pass, with time linear in the bytes: about 20 ms for a
 * megabyte. Validation is left to the engine, which reads accepted bytes in the same way or rejects them. Needs no
 * state of the process.
 *
 * @param name - The plug-in's, for messages.
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module, or use an unknown feature; the
 * message says which kind of file it is.
 * @throws {@link PluginTooComplexError} if it exceeds a limit.
 * @throws {@link PluginUnboundedError} if it uses garbage-collected types or stores exceptions without permission.
 */
export function readModule(bytes: Uint8Array, options: ReadOptions, name: string): ModuleView {
  const problem = problemWithFile(bytes)
  if (problem) throw new PluginInvalidError(name, problem)
  const sections = findSections(bytes, name)
  const reader = new ByteReader(bytes, MODULE_HEADER_BYTES, bytes.length, name)
  const contents = new SectionReader(options, name)
  contents.size(bytes.length)
  let last = -1
  for (const { id, content, end } of sections) {
    reader.at = content
    const isCustom = id === SECTION.custom || id === SECTION.hints
    if (!isCustom) {
      const place = SECTION_ORDER.indexOf(id)
      if (place < 0) reader.fail(`it has an unknown section (${id})`)
      if (place <= last) reader.fail(`section ${id} is duplicate or out of order`)
      last = place
    }
    const section = reader.part(end - content)
    contents.read(isCustom ? SECTION.custom : id, section)
    if (!section.done) section.fail(`section ${id} is longer than its content`)
  }
  return { name, bytes, limits: options.limits ?? {}, sections, ...contents.contents(reader) }
}

/** @throws {@link PluginInvalidError} if the last one is cut off. */
export function findSections(bytes: Uint8Array, name: string): SectionRange[] {
  const reader = new ByteReader(bytes, MODULE_HEADER_BYTES, bytes.length, name)
  const sections: SectionRange[] = []
  while (!reader.done) {
    const start = reader.at
    const id = reader.byte()
    if (reader.done) throw cutOff(name, 1, bytes)
    const size = reader.u32()
    const content = reader.at
    const end = content + size
    if (end > bytes.length) throw cutOff(name, end - bytes.length, bytes)
    const hasHints = id === SECTION.custom && isNamed(bytes.subarray(content, end), HINTS_NAME)
    sections.push({ id: hasHints ? SECTION.hints : id, start, content, end })
    reader.at = end
  }
  return sections
}

/** @param content - Of a custom section. @param name - Shorter than 128 characters. */
function isNamed(content: Uint8Array, name: string): boolean {
  return (
    content[0] === name.length && Buffer.from(content.subarray(1, 1 + name.length)).equals(Buffer.from(name))
  )
}

function cutOff(name: string, missing: number, bytes: Uint8Array): Error {
  const reason = `it is cut off: at least ${missing} bytes are missing after byte ${bytes.length}`
  return new PluginInvalidError(name, reason)
}

/**
 * Describes a file that is not a WebAssembly core module, by its first bytes.
 *
 * @returns undefined if it begins like a module.
 */
export function problemWithFile(bytes: Uint8Array): string | undefined {
  if (bytes.length === 0) return 'the file is empty'
  if (!startsWith(bytes, '\0asm')) return `it is ${fileKind(bytes)}, not a WebAssembly module`
  if (bytes.length < 8) return `it is cut off: ${bytes.length} bytes, and a module has at least 8`

  const [version, layer] = [halfWord(bytes, 4), halfWord(bytes, 6)]
  if (layer === 1)
    return 'it is a WebAssembly component, not a core module: build it for wasm32-unknown-unknown or wasm32-wasip1'
  if (version !== 1 || layer !== 0)
    return `it has WebAssembly version ${version}, and only version 1 is supported`
  return undefined
}

const FILE_MAGIC: readonly [start: string, kind: string][] = [
  ['\x1f\x8b', 'a gzip archive (unpack it first)'],
  ['\x28\xb5\x2f\xfd', 'a zstd archive (unpack it first)'],
  ['PK\x03\x04', 'a zip archive (unpack it first)'],
  ['\x7fELF', 'a native ELF program'],
  ['MZ', 'a native Windows program'],
  ['\xcf\xfa\xed\xfe', 'a native macOS program'],
  ['\xca\xfe\xba\xbe', 'a native macOS program or a Java class'],
  ['!<arch>\n', 'a static library (an archive of object files)'],
  ['BC\xc0\xde', 'LLVM bitcode'],
  ['%PDF', 'a PDF document'],
  ['#!', 'a script'],
]

function fileKind(bytes: Uint8Array): string {
  const magic = FILE_MAGIC.find(([start]) => startsWith(bytes, start))
  if (magic) return magic[1]

  const start = bytes.subarray(0, 512)
  // The cut at 512 bytes may split a character: tolerate that, so that text is not taken for binary.
  if (![0, 1, 2, 3].some((cut) => isUtf8(start.subarray(0, start.length - cut))) || start.includes(0)) {
    return `an unknown kind of file (it starts with ${Buffer.from(bytes.subarray(0, 4)).toString('hex')})`
  }
  const text = Buffer.from(start).toString().trimStart().toLowerCase()
  if (text.startsWith('<!doctype html') || text.startsWith('<html'))
    return 'an HTML page (a failed download?)'
  if (text.startsWith('(module') || text.startsWith(';;'))
    return 'WebAssembly text (assemble it with wat2wasm)'
  if (text.startsWith('{')) return 'JSON text'
  if (text.startsWith('version https://git-lfs'))
    return 'a Git LFS pointer (fetch the file with git lfs pull)'
  return 'text'
}

function startsWith(bytes: Uint8Array, latin1: string): boolean {
  return Buffer.from(bytes.subarray(0, latin1.length)).toString('latin1') === latin1
}

function halfWord(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8)
}
