import { createHash } from 'node:crypto'

/** A value that contains its number and a checksum of its completeness: its length varies, over several pages. */
export function stormValue(id: string, number: number): Uint8Array {
  const text = `${id} ${number} `.repeat(1 + ((number * 7_919) % 2_000))
  return Buffer.concat([createHash('sha256').update(text).digest(), Buffer.from(text)])
}

/** @returns the number in the value. @throws Error if it is torn. */
export function readStormValue(id: string, value: Uint8Array): number {
  const text = Buffer.from(value.subarray(32)).toString()
  const number = Number(text.split(' ')[1])
  if (!text.startsWith(`${id} `) || Buffer.compare(value, stormValue(id, number)) !== 0)
    throw new Error('torn')
  return number
}
