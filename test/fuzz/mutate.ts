import type { Random } from '../support/random.ts'

/** Most bytes of an input that was mutated. */
const MAX_BYTES = 64 * 1024

/** Numbers where limits are, and bytes that formats begin, end or escape with. */
const TELLING = [
  0, 1, 0x7f, 0x80, 0xbf, 0xc0, 0xed, 0xf4, 0xff, 0x0a, 0x20, 0x22, 0x2c, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d,
]

/** Changes an input a few times: bytes are flipped, cut, repeated, inserted, and spliced with `other`. */
export function mutate(input: Uint8Array, other: Uint8Array, random: Random): Uint8Array {
  let bytes = input
  for (let changes = 1 + below(random, 4); changes > 0; changes--) bytes = change(bytes, other, random)
  return bytes.subarray(0, MAX_BYTES)
}

/** A whole number from 0 to `limit`, without `limit`; 0 if that is 0. */
export function below(random: Random, limit: number): number {
  return Math.floor(random() * limit)
}

/** One of them. */
export function choose<Value>(random: Random, [first, ...others]: readonly [Value, ...Value[]]): Value {
  return others[below(random, others.length + 1) - 1] ?? first
}

function change(bytes: Uint8Array, other: Uint8Array, random: Random): Uint8Array {
  const [from, to] = range(bytes, random)
  const insert = (part: Uint8Array) => Buffer.concat([bytes.subarray(0, from), part, bytes.subarray(from)])
  switch (below(random, 8)) {
    case 0:
      return replace(bytes, from, (bytes[from] ?? 0) ^ (1 << below(random, 8)))
    case 1:
      return replace(bytes, from, TELLING[below(random, TELLING.length)] ?? 0)
    case 2:
      return replace(bytes, from, below(random, 256))
    case 3:
      return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)])
    case 4:
      return insert(repeat(bytes.subarray(from, to), 1 << below(random, 8)))
    case 5:
      return insert(Uint8Array.from({ length: 1 + below(random, 8) }, () => below(random, 256)))
    case 6:
      return insert(other.subarray(...range(other, random)))
    default:
      return Buffer.concat([bytes.subarray(0, from), other.subarray(below(random, other.length))])
  }
}

/** Short ones are more frequent. */
function range({ length }: Uint8Array, random: Random): [from: number, to: number] {
  const from = below(random, length)
  return [from, from + Math.ceil((length - from) * random() ** 4)]
}

function replace(bytes: Uint8Array, at: number, byte: number): Uint8Array {
  const changed = Uint8Array.from(bytes)
  if (at < changed.length) changed[at] = byte
  return changed
}

function repeat(part: Uint8Array, times: number): Uint8Array {
  const most = Math.floor(MAX_BYTES / (part.length || 1))
  return Buffer.concat(Array.from({ length: Math.min(times, most) }, () => part))
}
