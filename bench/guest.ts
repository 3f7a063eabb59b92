import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import loadWabt from 'wabt'

/** The bytes of a guest of `bench/guests`, assembled. */
export async function assembleGuest(name: string): Promise<Uint8Array> {
  const wabt = await loadWabt()
  const text = readFileSync(new URL(`guests/${name}.wat`, import.meta.url), 'latin1') // wabt wants bytes
  return wabt.parseWat(`${name}.wat`, text).toBinary({}).buffer
}

/** The same as a file, which is there until the bench ends. @returns its path. */
export async function assembleGuestFile(name: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-guest-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, `${name}.wasm`)
  writeFileSync(path, await assembleGuest(name))
  return path
}
