import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KernelBlocks, openKernelBlocks } from '../../../src/extism/kernel-blocks.ts'
import { KERNEL_MODULE } from '../../../src/runtime/kernel-module.ts'
import { runs } from '../../support/runs.ts'

/** Blocks whose inputs are copied at once: what deferred ones must look like. */
const openEager = () => {
  const blocks = new KernelBlocks(new WebAssembly.Instance(KERNEL_MODULE))
  blocks.reset()
  return blocks
}

const pattern = (length: number) => new Uint8Array(length).map((_, i) => (i * 7 + 1) % 256)

function guestFunction(blocks: KernelBlocks, name: string): CallableFunction {
  const found = blocks.functions[name]
  if (typeof found === 'function') return found
  throw new Error(`no function ${name}`)
}

/** An operation on blocks of both kinds; its result is compared. */
type Operation = (blocks: KernelBlocks) => unknown

const lengths = fc.constantFrom(0, 1, 4_095, 4_096, 4_097, 8_192, 10_000, 70_000)
const offsets = fc.oneof(
  fc.integer({ min: -16, max: 72_000 }),
  fc.constantFrom(...[4_088, 4_089, 4_095, 4_096, 8_191, 9_993, 9_999, 10_000, 69_992, 69_993, 70_000]),
  fc.constantFrom(2 ** 31, 2 ** 32 - 1_024, 2 ** 32, 2 ** 32 + 5_000, 2 ** 53),
)
const guestCall = (name: string, ...args: unknown[]): Operation => {
  return (blocks) => {
    try {
      return guestFunction(blocks, name)(...args)
    } catch (error) {
      return error instanceof WebAssembly.RuntimeError ? 'trap' : error
    }
  }
}
const bytesOf = (buffer: ArrayBuffer | undefined) => buffer && Buffer.from(buffer).toString('base64')

const operations: fc.Arbitrary<Operation> = fc.oneof(
  offsets.map((at) => guestCall('load_u8', BigInt(1_024 + at))),
  offsets.map((at) => guestCall('load_u64', BigInt(1_024 + at))),
  offsets.map((at) => guestCall('store_u8', BigInt(1_024 + at), 0xab)),
  offsets.map((at) => guestCall('store_u64', BigInt(1_024 + at), 0x0102_0304_0506_0708n)),
  offsets.map((at) => guestCall('input_load_u8', BigInt(at))),
  offsets.map((at) => guestCall('input_load_u64', BigInt(at))),
  offsets.map((at) => guestCall('length', BigInt(1_024 + at))),
  fc.oneof(lengths, offsets).map((length) => guestCall('alloc', BigInt(length))),
  fc.constant(guestCall('free', 1_024n)),
  fc.constant(guestCall('error_set', 1_024n)),
  fc.constant(guestCall('input_length')),
  fc
    .tuple(offsets, lengths)
    .map(([at, length]) => guestCall('output_set', BigInt(1_024 + at), BigInt(length))),
  fc.constant<Operation>((blocks) =>
    guestCall('output_set', 1_024n, guestFunction(blocks, 'input_length')())(blocks),
  ),
  fc.constant<Operation>((blocks) => bytesOf(blocks.output())),
  fc.constant<Operation>((blocks) => blocks.error()),
  fc.constant<Operation>((blocks) => blocks.settleInput()),
  fc.constant<Operation>((blocks) => bytesOf(blocks.read(1_024n))),
  lengths.map(
    (length): Operation =>
      (blocks) =>
        blocks.store(pattern(length).fill(5)),
  ),
  lengths.map(
    (length): Operation =>
      (blocks) =>
        blocks.write(1_024n, pattern(length).fill(9)),
  ),
  // A host function that reads the input, changes it and returns.
  offsets.map(
    (at): Operation =>
      (blocks) => {
        const read = new Uint8Array(blocks.read(1_024n) ?? new ArrayBuffer())
        read[at] = 3
        blocks.write(1_024n, read)
      },
  ),
  lengths.map(
    (length): Operation =>
      (blocks) => {
        blocks.reset()
        blocks.input(pattern(length))
      },
  ),
)

test('guest and host cannot tell a deferred input from one that was copied', () => {
  fc.assert(
    fc.property(lengths, fc.array(operations, { maxLength: 40 }), (length, steps) => {
      const both = [openKernelBlocks(Number.POSITIVE_INFINITY), openEager()] as const
      for (const blocks of both) blocks.input(pattern(length))
      for (const step of steps) expect(step(both[0])).toEqual(step(both[1]))
      // Nothing of the call is left, wherever it was.
      for (const blocks of both) blocks.reset()
      const left = both.map(({ memory }) =>
        Buffer.from(memory.buffer)
          .subarray(1_024)
          .findIndex((byte) => byte !== 0),
      )
      expect(left).toEqual([-1, -1])
    }),
    { numRuns: runs(100) },
  )
})

test('the input of the caller is never written to', () => {
  const blocks = openKernelBlocks(Number.POSITIVE_INFINITY)
  const input = pattern(10_000)
  blocks.input(input)
  guestCall('store_u8', 2_000n, 0xab)(blocks)
  guestCall('output_set', 1_024n, 10_000n)(blocks)
  expect(blocks.output()).not.toBe(input.buffer)
  blocks.reset()
  blocks.input(input)
  blocks.write(1_024n, pattern(10_000).fill(9))
  guestCall('output_set', 1_024n, 10_000n)(blocks)
  expect(blocks.output()).not.toBe(input.buffer)
  expect(input).toEqual(pattern(10_000))
})

test('what a host function writes into the input that it read is there for the guest', () => {
  const blocks = openKernelBlocks(Number.POSITIVE_INFINITY)
  blocks.input(pattern(10_000))
  expect(guestCall('input_load_u8', 0n)(blocks)).toBe(1)
  const read = new Uint8Array(blocks.read(1_024n) ?? new ArrayBuffer())
  read.fill(9)
  blocks.write(1_024n, read)
  expect(guestCall('input_load_u8', 0n)(blocks)).toBe(9)
  expect(guestCall('load_u8', 11_023n)(blocks)).toBe(9)
  guestCall('output_set', 1_024n, 10_000n)(blocks)
  expect(new Uint8Array(blocks.output() ?? new ArrayBuffer())).toEqual(read)
})

test('an output that is the whole input is not copied, also if the guest has read it', () => {
  const blocks = openKernelBlocks(Number.POSITIVE_INFINITY)
  const input = pattern(10_000)
  blocks.input(input)
  for (let i = 0; i < 10_000; i++) guestCall('input_load_u8', BigInt(i))(blocks)
  guestCall('output_set', 1_024n, 10_000n)(blocks)
  expect(blocks.output()).toBe(input.buffer)
})

test('no byte of an input that a host function changed is left for the next call', () => {
  const blocks = openKernelBlocks(Number.POSITIVE_INFINITY)
  blocks.input(pattern(10_000))
  expect(guestCall('input_load_u8', 0n)(blocks)).toBe(1)
  blocks.write(1_024n, new Uint8Array(blocks.read(1_024n) ?? new ArrayBuffer()))
  blocks.reset()
  expect(guestCall('alloc', 10_000n)(blocks)).toBe(1_024n)
  expect(guestCall('load_u8', 1_024n)(blocks)).toBe(0)
})

test('an input that was detached is refused, not read as zeros', () => {
  const blocks = openKernelBlocks(Number.POSITIVE_INFINITY)
  const input = pattern(10_000)
  blocks.input(input)
  expect(guestCall('input_load_u8', 0n)(blocks)).toBe(1)
  structuredClone(input, { transfer: [input.buffer] })
  expect(guestCall('input_load_u8', 100n)(blocks)).toBe(pattern(101)[100])
  expect(guestCall('input_load_u8', 9_999n)(blocks)).toBeInstanceOf(TypeError)
  guestCall('output_set', 1_024n, 10_000n)(blocks)
  expect(() => blocks.output()).toThrow(TypeError)
  blocks.reset()
  expect(guestCall('alloc', 10_000n)(blocks)).toBe(1_024n)
  expect(guestCall('load_u8', 1_024n)(blocks)).toBe(0)
})
