import { KERNEL_WASM } from '../module/kernel-wasm.ts'

/*
 * `kernel.wasm`, compiled: with a memory of its own, or for a memory that two threads share. All state of the kernel is in its
 * memory, so each thread has an instance of the kernel.
 */

/** With a memory of its own. */
export const KERNEL_MODULE = new WebAssembly.Module(KERNEL_WASM)

/** The exports that guests may import. `memory`, `reset` and the other exports for the host are not among them. */
export const GUEST_FUNCTIONS = [
  ...['alloc', 'free', 'length', 'length_unsafe', 'load_u8', 'load_u64', 'store_u8', 'store_u64'],
  ...['input_offset', 'input_length', 'input_load_u8', 'input_load_u64'],
  ...['output_set', 'error_set', 'error_get'],
]

/** Offsets of the fields that the host uses in the root of `kernel.wat`, in words of 4 bytes. */
export const ROOT = {
  span: 0,
  input: 4,
  inputAt: 8,
  outputAt: 9,
  output: 10,
  errorAt: 11,
  error: 12,
  limit: 14,
  most: 15,
}

/**
 * A memory for the kernel that threads share. Only one of them may use it at a time.
 *
 * @param blockLimit - Maximum bytes of blocks that one call may use; below 2 GiB.
 */
export function newSharedMemory(blockLimit: number): WebAssembly.Memory {
  const memory = new WebAssembly.Memory({ initial: 2, maximum: KERNEL_PAGES, shared: true })
  const root = new Uint32Array(memory.buffer)
  const first = new Uint32Array(ownMemory(new WebAssembly.Instance(KERNEL_MODULE)).buffer)
  root[ROOT.limit] = first[ROOT.limit] ?? 0
  root[ROOT.most] = Math.min(blockLimit, MAX_BLOCKS)
  return memory
}

/** An instance of the kernel for this thread. @param memory - Made by {@link newSharedMemory}, in any thread. */
export function instantiateKernel(memory: WebAssembly.Memory): WebAssembly.Instance {
  importingKernel ??= new WebAssembly.Module(importMemory(KERNEL_WASM))
  return new WebAssembly.Instance(importingKernel, { host: { memory } })
}

let importingKernel: WebAssembly.Module | undefined

export function ownMemory({ exports }: WebAssembly.Instance): WebAssembly.Memory {
  if (exports.memory instanceof WebAssembly.Memory) return exports.memory
  throw new Error('the kernel has no memory')
}

/** Maximum bytes of the blocks of a call. */
export const MAX_BLOCKS = 0x7fff_ffff

/** Enough for blocks of 2 GiB, and for their map, which takes a quarter of that. */
const KERNEL_PAGES = 49_152

const SECTION_ID = { type: 1, import: 2, memory: 5, data: 11 }

/** The kernel with an imported, shared memory. It has no data segments: another thread may use the memory already. */
function importMemory(wasm: Uint8Array): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [wasm.subarray(0, 8)]
  for (let at = 8; at < wasm.length; ) {
    const { value: size, end: start } = readLeb(wasm, at + 1)
    const section = wasm[at]
    if (section !== SECTION_ID.memory && section !== SECTION_ID.data)
      parts.push(wasm.subarray(at, start + size))
    if (section === SECTION_ID.type) parts.push(Uint8Array.from(MEMORY_IMPORT))
    at = start + size
  }
  return new Uint8Array(Buffer.concat(parts))
}

/** `(import "host" "memory" (memory 2 49152 shared))` */
const MEMORY_IMPORT = [
  ...[SECTION_ID.import, 19, 1],
  ...[4, ...Buffer.from('host'), 6, ...Buffer.from('memory')],
  ...[2, 3, 2, 0x80, 0x80, 3],
]

function readLeb(bytes: Uint8Array, start: number): { readonly value: number; readonly end: number } {
  let value = 0
  for (let at = start, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] ?? 0
    value |= (byte & 0x7f) << shift
    if (byte < 0x80) return { value, end: at + 1 }
  }
}
