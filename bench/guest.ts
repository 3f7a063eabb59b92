import { readFileSync } from 'node:fs'
import loadWabt from 'wabt'

/** The bytes of a guest of `bench/guests`, assembled. */
export async function assembleGuest(name: string): Promise<Uint8Array> {
  const wabt = await loadWabt()
  const text = readFileSync(new URL(`guests/${name}.wat`, import.meta.url), 'latin1') // wabt wants bytes
  return wabt.parseWat(`${name}.wat`, text).toBinary({}).buffer
}
