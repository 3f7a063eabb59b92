import { capMemory } from '../../src/module/memory-cap.ts'
import { type KernelMemoryKind, mergeKernel, planMerge } from '../../src/module/merge.ts'
import { readModule } from '../../src/module/module.ts'
import { KERNEL_MEMORY, MERGED_MEMORIES } from '../../src/module/names.ts'
import type { KernelMemory } from '../../src/runtime/kernel-memory.ts'
import { guestBytes } from './guest.ts'
import type { Abi } from './kernel-model.ts'

/** Parameters and results of the functions that the merger replaces, and of the others that the model calls. */
const SIGNATURES = {
  alloc: ['i64', 'i64'],
  free: ['i64', ''],
  length: ['i64', 'i64'],
  length_unsafe: ['i64', 'i64'],
  load_u8: ['i64', 'i32'],
  load_u64: ['i64', 'i64'],
  store_u8: ['i64 i32', ''],
  store_u64: ['i64 i64', ''],
  input_offset: ['', 'i64'],
  input_length: ['', 'i64'],
  input_load_u8: ['i64', 'i32'],
  input_load_u64: ['i64', 'i64'],
  output_set: ['i64 i64', ''],
  error_set: ['i64', ''],
  error_get: ['', 'i64'],
} as const

/** The modules of {@link mergedAbi}; undefined if this engine cannot merge. */
const modules = { own: compileMerged('own'), shared: compileMerged('shared') }

function compileMerged(memory: KernelMemoryKind): WebAssembly.Module | undefined {
  const functions = Object.entries(SIGNATURES).map(([name, [params, result]]) => {
    const type = `${params && `(param ${params})`} ${result && `(result ${result})`}`
    const given = (params === '' ? [] : params.split(' ')).map((_, index) => `(local.get ${index})`)
    return {
      imported: `(import "extism:host/env" "${name}" (func $${name} ${type}))`,
      exported: `(func (export "${name}") ${type} (call $${name} ${given.join(' ')}))`,
    }
  })
  const text = functions.map(({ imported }) => imported).join('\n')
  const code = functions.map(({ exported }) => exported).join('\n')
  const capped = capMemory(
    readModule(guestBytes(`(module ${text} (memory 1 1) ${code})`), {}, 'abi.wasm'),
    10,
  )
  const plan = planMerge(capped, memory)
  const module = typeof plan === 'object' ? mergeKernel(capped, plan) : plan
  return typeof module === 'object' ? new WebAssembly.Module(new Uint8Array(module.bytes)) : undefined
}

/** The functions of a kernel as a guest has them into which it is merged; undefined if this engine cannot merge. */
export function mergedAbi({ functions, memory }: KernelMemory): Abi | undefined {
  const merged = modules[memory.buffer instanceof ArrayBuffer ? 'own' : 'shared']
  if (!merged) return undefined
  const own = WebAssembly.Module.imports(merged).filter(({ module }) => module === MERGED_MEMORIES)
  const memories = own.map(({ name }) => [
    name,
    name === KERNEL_MEMORY ? memory : new WebAssembly.Memory({ initial: 1, maximum: 1 }),
  ])
  const { exports } = new WebAssembly.Instance(merged, {
    'extism:host/env': functions,
    [MERGED_MEMORIES]: Object.fromEntries(memories),
  })
  return exports as unknown as Abi
}
