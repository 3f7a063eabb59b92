import { answer } from './answer.ts'
import type { GuestMemory } from './guest-memory.ts'

/** `args_*` and `environ_*`: two lists of strings that never change. */
export function openStrings(
  memory: GuestMemory,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) {
  const [args_sizes_get, args_get] = listFunctions(memory, args)
  const [environ_sizes_get, environ_get] = listFunctions(
    memory,
    Object.entries(env).map(([name, value]) => `${name}=${value}`),
  )
  return { args_sizes_get, args_get, environ_sizes_get, environ_get }
}

function listFunctions(memory: GuestMemory, strings: readonly string[]) {
  const encoded = strings.map((text) => Buffer.from(`${text}\0`))
  const bytes = Buffer.concat(encoded)

  const sizes = answer((countPointer: number, sizePointer: number) => {
    memory.setU32(countPointer, encoded.length)
    memory.setU32(sizePointer, bytes.length)
  })
  const get = answer((pointers: number, target: number) => {
    const list = memory.locate(pointers, encoded.length * 4)
    let start = memory.locate(target, bytes.length)
    memory.bytes.set(bytes, start)
    for (const [index, { length }] of encoded.entries()) {
      memory.view.setUint32(list + index * 4, start, true)
      start += length
    }
  })
  return [sizes, get] as const
}
