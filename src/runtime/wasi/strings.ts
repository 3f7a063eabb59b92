import { answer } from './errno.ts'
import type { GuestMemory } from './guest-memory.ts'

/** `args_*` and `environ_*`: two lists of strings that never change. */
export function openStrings(
  memory: GuestMemory,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) {
  const [args_sizes_get, args_get] = listFunctions(memory, encodeOnce(args, args))
  const [environ_sizes_get, environ_get] = listFunctions(memory, encodeOnce(env, entries(env)))
  return { args_sizes_get, args_get, environ_sizes_get, environ_get }
}

interface Encoded {
  readonly strings: readonly Uint8Array[]
  readonly bytes: Uint8Array
}

/** What the instances of a route have in common: to encode it takes longer than all else here. */
const known = new WeakMap<object, Encoded>()

function encodeOnce(source: object, list: Iterable<string>): Encoded {
  const found = known.get(source)
  if (found) return found
  const strings = Array.from(list, (text) => Buffer.from(`${text}\0`))
  const encoded = { strings, bytes: Buffer.concat(strings) }
  known.set(source, encoded)
  return encoded
}

function* entries(env: Readonly<Record<string, string>>): Iterable<string> {
  for (const [name, value] of Object.entries(env)) yield `${name}=${value}`
}

function listFunctions(memory: GuestMemory, { strings, bytes }: Encoded) {
  const sizes = answer((countPointer: number, sizePointer: number) => {
    memory.setU32(countPointer, strings.length)
    memory.setU32(sizePointer, bytes.length)
  })
  const get = answer((pointers: number, target: number) => {
    const list = memory.locate(pointers, strings.length * 4)
    let start = memory.locate(target, bytes.length)
    memory.bytes.set(bytes, start)
    for (const [index, { length }] of strings.entries()) {
      memory.view.setUint32(list + index * 4, start, true)
      start += length
    }
  })
  return [sizes, get] as const
}
