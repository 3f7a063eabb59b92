import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KernelMemoryKind } from '../../../src/module/merge.ts'
import { joinKernelMemory, type KernelMemory, openKernelMemory } from '../../../src/runtime/kernel-memory.ts'
import { newSharedMemory } from '../../../src/runtime/kernel-module.ts'
import { type Abi, KernelModel } from '../../support/kernel-model.ts'
import { mergedAbi } from '../../support/merged-abi.ts'
import { runs } from '../../support/runs.ts'

const LIMIT = 300_000

function abiOf(memory: KernelMemory): Abi {
  return memory.functions as unknown as Abi
}

function mergedAbiOf(memory: KernelMemory): Abi {
  const functions = mergedAbi(memory)
  if (!functions) throw new Error('this engine cannot merge')
  return functions
}

/** Numbers that wrap, that are off by one, or that name what is the kernel's own. */
const hostile = fc.constantFrom(
  ...[0n, 1n, 7n, 16n, 52n, 56n, 64n, 1_016n, 1_017n, 1_023n, 1_024n, 1_025n, 104_447n, 104_448n, 131_072n],
  ...[
    2n ** 31n - 1n,
    2n ** 31n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 32n + 16n,
    2n ** 32n + 1_024n,
    2n ** 63n - 1n,
    2n ** 63n,
  ],
  ...[-1n, -7n, -8n, -16n, -1_024n].map((n) => BigInt.asUintN(64, n)),
)
const size = fc.oneof(
  { weight: 6, arbitrary: fc.bigInt(0n, 300n) },
  { weight: 2, arbitrary: fc.bigInt(0n, 100_000n) },
  { weight: 1, arbitrary: hostile },
)
/** A block that the call made (by number, so that it shrinks), and how far from its beginning; or a hostile number. */
const place = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ block: fc.nat(30), delta: fc.constantFrom(0, 0, 0, 1, -1, 8, 16, 100) }),
  },
  { weight: 1, arbitrary: hostile },
)
const step = fc.record({
  name: fc.constantFrom(
    ...['alloc', 'alloc', 'alloc', 'free', 'length', 'length_unsafe', 'load_u8', 'load_u64', 'store_u8'],
    ...['store_u64', 'store_u64', 'input_load_u8', 'input_load_u64', 'output_set', 'error_set', 'next_call'],
  ),
  place,
  size,
})

type Way = [how: string, kind: KernelMemoryKind, functionsOf: (memory: KernelMemory) => Abi]
const WAYS: Way[] = (['own', 'shared'] as const).flatMap((kind) => {
  const merged: Way[] = [[`merged into a guest, with its ${kind} memory`, kind, mergedAbiOf]]
  return [
    [`linked to a guest, with its ${kind} memory`, kind, abiOf],
    ...(mergedAbi(openKernelMemory(LIMIT)) ? merged : []),
  ]
})

test.each(
  WAYS,
)('whatever a guest passes, the kernel does what a plain model of it does: %s', (_how, kind, functionsOf) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
      const memory = openKernelMemory(LIMIT, kind)
      const model = new KernelModel(memory, functionsOf(memory), LIMIT)
      for (const { name, place, size } of steps) model.step(name, place, size)
      model.check()
    }),
    { numRuns: runs(100) },
  )
})

test('whatever a call did, a kernel that has not grown is byte for byte a new one after it', () => {
  const module = new WebAssembly.Module(
    readFileSync(new URL('../../../src/module/kernel.wasm', import.meta.url)),
  )
  const bytesOf = ({ exports }: WebAssembly.Instance) =>
    Buffer.from((exports.memory as WebAssembly.Memory).buffer)
  const first = bytesOf(new WebAssembly.Instance(module))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100, size: 'max' }), (steps) => {
      const kernel = new WebAssembly.Instance(module)
      const abi = kernel.exports as Abi & { input_new: (bytes: number) => number; reset: () => void }
      const blocks = [BigInt(abi.input_new(10))]
      for (const { name, place, size } of steps) {
        const at = typeof place === 'bigint' ? place : (blocks[place.block % blocks.length] ?? 0n)
        const [run, first] = [abi[name], name === 'alloc' || name.startsWith('input') ? size : at]
        try {
          const result = run?.(first, name === 'store_u8' ? 255 : size)
          if (name === 'alloc') blocks.push(result as bigint)
        } catch (trap) {
          expect(trap).toBeInstanceOf(WebAssembly.RuntimeError)
        }
      }
      fc.pre(bytesOf(kernel).length === first.length)
      abi.reset()
      expect(Buffer.compare(bytesOf(kernel), first)).toBe(0)
    }),
  )
})

test('a guest that outputs more than it wrote hands on nothing of an earlier call', () => {
  const memory = openKernelMemory(LIMIT)
  const { alloc, output_set } = abiOf(memory)
  for (const length of [10, 1_000, 100_000, 250_000]) {
    memory.input(new Uint8Array(length).fill(0x73))
    memory.store(new Uint8Array(10).fill(0x73))
    memory.reset()
    const block = alloc?.(200_000n) ?? 0
    output_set?.(block, 200_000n)
    expect(memory.output().every((byte) => byte === 0)).toBe(true)
    memory.reset()
  }
})

test('two sides of a shared memory take turns: one writes the input, the other one runs the guest, the first reads the output', () => {
  const shared = newSharedMemory(2 ** 24)
  const [host, guest] = [joinKernelMemory(shared), joinKernelMemory(shared)]
  const { input_offset, input_length, output_set } = abiOf(guest)
  for (const length of [1, 10_000, 5_000_000, 20]) {
    const body = Buffer.alloc(length, `${length} `)
    expect(host.input(body)).toBe(true)
    expect(Buffer.compare(guest.inputView(), body)).toBe(0)
    expect(guest.input(guest.inputView())).toBe(true)
    output_set?.(input_offset?.() as bigint, input_length?.() as bigint)
    expect(Buffer.compare(guest.outputView(), body)).toBe(0)
    expect(Buffer.compare(host.output(), body)).toBe(0)
    host.reset()
    expect([guest.isUsed, guest.outputLength(), guest.inputView().length]).toEqual([false, 0, 0])
  }
})

test('eight bytes can be touched up to the last byte, and not one further', () => {
  const memory = openKernelMemory(LIMIT)
  const { alloc, load_u64, store_u64, load_u8, input_load_u64, output_set } = abiOf(memory)
  memory.input(new Uint8Array(16))
  const last = BigInt(alloc?.(16n) ?? 0) // 16 bytes take 16 bytes: nothing comes after it
  store_u64?.(last + 8n, -1n)
  expect(load_u64?.(last + 8n)).toBe(-1n)
  expect(input_load_u64?.(8n)).toBe(0n)
  expect(load_u8?.(last + 15n)).toBe(255)
  output_set?.(last, 16n)
  const outside = [
    () => load_u64?.(last + 9n),
    () => store_u64?.(last + 9n, 0n),
    () => load_u8?.(last + 16n),
    () => input_load_u64?.(9n),
    () => output_set?.(last, 17n),
    () => output_set?.(last, -1n),
    () => output_set?.(last, -16n),
    () => output_set?.(last + 1n, 2n ** 32n),
  ]
  for (const attempt of outside) expect(attempt).toThrow(WebAssembly.RuntimeError)
})

test('fresh blocks are zero where the map was before it moved up', () => {
  const memory = openKernelMemory(2 ** 24)
  const { alloc, output_set, length } = abiOf(memory)
  for (let call = 0; call < 2; call++) {
    const blocks = Array.from({ length: 20_000 }, () => BigInt(alloc?.(100n) ?? 0))
    const first = blocks[0] ?? 0n
    output_set?.(first, (blocks.at(-1) ?? 0n) - first)
    expect(memory.outputLength()).toBeGreaterThan(2_000_000)
    expect(memory.output().every((byte) => byte === 0)).toBe(true)
    expect(new Set(blocks.map((block) => length?.(block)))).toEqual(new Set([100n]))
    memory.reset()
  }
})

test('the guest gets the functions of the ABI and nothing else of the kernel', () => {
  expect(Object.keys(openKernelMemory(LIMIT).functions).sort()).toEqual([
    ...['alloc', 'error_get', 'error_set', 'free', 'input_length', 'input_load_u64', 'input_load_u8'],
    ...[
      'input_offset',
      'length',
      'length_unsafe',
      'load_u64',
      'load_u8',
      'output_set',
      'store_u64',
      'store_u8',
    ],
  ])
})

test('a freed block is used again, also for another length of its class', () => {
  const { alloc, free, length } = abiOf(openKernelMemory(LIMIT))
  const first = alloc?.(1_000n) ?? 0
  free?.(first)
  expect(alloc?.(990n)).toBe(first)
  expect(length?.(first)).toBe(990n)
})

test('the blocks of the output and the error keep their bytes when they are freed, and none takes their place', () => {
  const memory = openKernelMemory(LIMIT)
  const { alloc, free, store_u8, output_set, error_set, length } = abiOf(memory)
  const blockOf = (byte: number): bigint => {
    const at = alloc?.(32n) as bigint
    for (let i = 0n; i < 32n; i++) store_u8?.(at + i, byte)
    return at
  }
  const output = blockOf(97)
  output_set?.(output + 16n, 16n)
  const error = blockOf(98)
  error_set?.(error)
  free?.(output)
  free?.(error)
  expect([length?.(output), length?.(error)]).toEqual([0n, 0n])
  const more = Array.from({ length: 10 }, () => blockOf(99))
  expect(more).not.toContain(output)
  expect(more).not.toContain(error)
  expect(Buffer.from(memory.output()).toString()).toBe('a'.repeat(16))
  expect(memory.error()).toBe('b'.repeat(32))
  free?.(output)
  memory.reset()
  expect(blockOf(97)).toBe(output)
})

test('freeing the input takes it away', () => {
  const memory = openKernelMemory(LIMIT)
  const { free, input_offset, input_length, input_load_u8 } = abiOf(memory)
  memory.input(Uint8Array.of(1, 2, 3))
  free?.(input_offset?.() ?? 0)
  expect(input_length?.()).toBe(0n)
  expect(() => input_load_u8?.(0n)).toThrow(WebAssembly.RuntimeError)
})

test('an error is taken back with 0, and outlives its block', () => {
  const memory = openKernelMemory(LIMIT)
  const { error_set, error_get, free } = abiOf(memory)
  const message = memory.store(new TextEncoder().encode('no \u{1f980}'))
  error_set?.(message)
  free?.(message)
  expect(error_get?.()).toBe(message)
  expect(memory.error()).toBe('no \u{1f980}')
  error_set?.(0n)
  expect([error_get?.(), memory.errorLength()]).toEqual([0n, 0])
})

test('blocks end at the limit of a call, and the next call has all of it again', () => {
  const { alloc } = abiOf(openKernelMemory(2 ** 20))
  expect(alloc?.(2n ** 20n + 1n)).toBe(0n)
  const memory = openKernelMemory(2 ** 20)
  for (let call = 0; call < 3; call++) {
    let blocks = 0
    while (abiOf(memory).alloc?.(65_536n) !== 0n) blocks++
    expect(blocks).toBe(16)
    expect(memory.input(new Uint8Array(1))).toBe(false)
    memory.reset()
  }
  expect(memory.size).toBeLessThan(1.5 * 2 ** 20)
})

test('what the host reads, it reads from live blocks only', () => {
  const memory = openKernelMemory(LIMIT)
  const at = memory.store(Uint8Array.of(1, 2, 3))
  expect([...memory.read(at)]).toEqual([1, 2, 3])
  expect(memory.read(0n)).toHaveLength(0)
  for (const bad of [at + 1n, at + 16n, at + 2n ** 32n, -1n, 56n])
    expect(() => memory.read(bad)).toThrow(Error)
})
