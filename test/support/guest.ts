import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import loadWabt from 'wabt'

const wabt = await loadWabt()
const FEATURES = { exceptions: true, tail_call: true, threads: true }
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-'))

/** The bytes of a guest of `test/guests`, or of WebAssembly text. */
export function guestBytes(nameOrText: string): Uint8Array {
  const isText = nameOrText.startsWith('(')
  const file = new URL(`../guests/${nameOrText}.wat`, import.meta.url)
  // wabt takes the low byte of each character: so its characters are the bytes of the text.
  const text = (isText ? Buffer.from(nameOrText) : readFileSync(file)).toString('latin1')
  const module = wabt.parseWat(isText ? 'test.wat' : `${nameOrText}.wat`, text, FEATURES)
  return module.toBinary({ write_debug_names: true }).buffer
}

/** The path of a guest of `test/guests`, assembled. */
export function guest(name: string): string {
  return file(`${name}.wasm`, guestBytes(name))
}

/** The path of a temporary file with these bytes. */
export function file(name: string, bytes: Uint8Array | string): string {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}

/** Distinct modules that echo. */
export function moduleNumber(number: number): Uint8Array {
  const name = Buffer.from(`n${number}`)
  const custom = [0, name.length + 1, name.length, ...name]
  return Buffer.concat([guestBytes('echo'), Uint8Array.from(custom)])
}
