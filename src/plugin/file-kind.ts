import { isUtf8 } from 'node:buffer'
import { missingBytes } from './module.ts'

/**
 * Says what a file is that is not a WebAssembly core module, from its first bytes.
 *
 * @returns undefined if the bytes look like a whole module.
 */
export function whyNotAModule(bytes: Uint8Array): string | undefined {
  if (bytes.length === 0) return 'the file is empty'
  if (!startsWith(bytes, '\0asm')) return `it is ${fileKind(bytes)}, not a WebAssembly module`
  if (bytes.length < 8) return `it is cut off: ${bytes.length} bytes, and a module has at least 8`

  const [version, layer] = [halfWord(bytes, 4), halfWord(bytes, 6)]
  if (layer === 1)
    return 'it is a WebAssembly component, not a core module: build it for wasm32-unknown-unknown or wasm32-wasip1'
  if (version !== 1 || layer !== 0)
    return `it has WebAssembly version ${version}, and only version 1 is known`

  const missing = missingBytes(bytes)
  if (missing) return `it is cut off: at least ${missing} bytes are missing after byte ${bytes.length}`
  return undefined
}

const MAGIC: readonly [start: string, kind: string][] = [
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
  const magic = MAGIC.find(([start]) => startsWith(bytes, start))
  if (magic) return magic[1]

  const start = bytes.subarray(0, 512)
  // Cutting at 512 bytes may cut a character in two: a little slack keeps that from making text binary.
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
