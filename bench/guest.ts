import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import loadWabt from 'wabt'

/** The bytes of a guest of `bench/guests`, assembled; or of another folder, named from `bench`. */
export async function assembleGuest(name: string, folder = 'guests'): Promise<Uint8Array> {
  const wabt = await loadWabt()
  const text = readFileSync(new URL(`${folder}/${name}.wat`, import.meta.url), 'latin1') // wabt wants bytes
  return wabt.parseWat(`${name}.wat`, text).toBinary({}).buffer
}

/** Assembles a guest into a file, which exists until the bench ends. @returns its path. */
export async function assembleGuestFile(name: string, folder?: string): Promise<string> {
  const target = mkdtempSync(join(tmpdir(), 'wasm-serve-guest-'))
  process.once('exit', () => rmSync(target, { recursive: true, force: true }))
  const path = join(target, `${name}.wasm`)
  writeFileSync(path, await assembleGuest(name, folder))
  return path
}
