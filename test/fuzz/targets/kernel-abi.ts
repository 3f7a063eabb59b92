import { equal } from 'node:assert/strict'
import { type KernelMemory, openKernelMemory } from '../../../src/runtime/kernel-memory.ts'
import { type Abi, KernelModel, type Place } from '../../support/kernel-model.ts'
import { mergedAbi } from '../../support/merged-abi.ts'
import type { FuzzTarget } from '../target.ts'

/** Most bytes of blocks that a call may use. */
const LIMIT = 300_000

const STEPS = [
  ...[
    'alloc',
    'alloc',
    'alloc',
    'free',
    'length',
    'length_unsafe',
    'load_u8',
    'load_u64',
    'store_u8',
    'store_u64',
  ],
  ...['input_load_u8', 'input_load_u64', 'output_set', 'error_set', 'next_call', 'alloc'],
]

/** From the beginning of a block. */
const DELTAS = [0, 0, 0, 1, -1, 7, 8, 16, 100, -8, -16, 64, 1_000, -100, 1_023, 0]

/** Numbers that wrap, that are off by one, or that name what is the kernel's own. */
const NUMBERS = [
  ...[0n, 1n, 7n, 16n, 52n, 56n, 64n, 1_016n, 1_017n, 1_023n, 1_024n, 1_025n, 104_447n, 104_448n, 131_072n],
  ...[
    2n ** 31n - 1n,
    2n ** 31n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 32n + 16n,
    2n ** 32n + 1_024n,
    2n ** 63n - 1n,
  ],
  ...[2n ** 63n, ...[-1n, -7n, -8n, -16n, -1_024n].map((n) => BigInt.asUintN(64, n))],
]

const STEP_BYTES = 5
const MAX_STEPS = 100

/** What a guest may call of the kernel, in any order and with any numbers, beside the plain model of it. */
export const target: FuzzTarget = {
  name: 'kernel-abi',

  *seeds() {
    yield Uint8Array.of(14, 0, 0, 0, 90, 10, 0, 0, 0, 5, 11, 0, 0, 0, 80, 12, 0, 0, 0, 90)
    yield Uint8Array.from({ length: 16 * STEP_BYTES }, (_, i) =>
      i % STEP_BYTES === 0 ? i / STEP_BYTES : i * 37,
    )
    yield Uint8Array.from({ length: 60 * STEP_BYTES }, (_, i) => (i * 151) % 256)
  },

  run(input) {
    const outcome = runSteps(input, (memory) => memory.functions as unknown as Abi)
    if (isMergedHere)
      equal(
        runSteps(input, (memory) => mergedAbi(memory) ?? {}),
        outcome,
        'merged and linked differ',
      )
    return outcome
  },
}

const isMergedHere = mergedAbi(openKernelMemory(LIMIT)) !== undefined

function runSteps(input: Uint8Array, functionsOf: (memory: KernelMemory) => Abi): string {
  const memory = openKernelMemory(LIMIT)
  let last = 'nothing'
  const functions = functionsOf(memory)
  const noticed = Object.entries(functions).map(([name, run]): [string, Abi[string]] => [
    name,
    (...args) => {
      last = `${name} traps`
      const result = run(...args)
      last = `${name} ${result === undefined ? 'returns' : Number(result) === 0 ? 'is 0' : 'is not 0'}`
      return result
    },
  ])
  const model = new KernelModel(memory, Object.fromEntries(noticed), LIMIT)
  const steps = Math.min(Math.ceil(input.length / STEP_BYTES), MAX_STEPS)
  for (let i = 0; i < steps; i++) {
    const [step = 0, place = 0, delta = 0, high = 0, low = 0] = input.subarray(i * STEP_BYTES)
    model.step(STEPS[step % STEPS.length] ?? 'alloc', placeOf(place, delta), sizeOf(high, low))
  }
  const ended = last
  model.check()
  return `${ended}, ${memory.size / 65_536} pages`
}

function placeOf(place: number, delta: number): Place {
  if (place < 0xe0) return { block: place, delta: DELTAS[delta % DELTAS.length] ?? 0 }
  return NUMBERS[delta % NUMBERS.length] ?? 0n
}

function sizeOf(high: number, low: number): bigint {
  if (high < 0xa0) return BigInt(low)
  if (high < 0xf0) return BigInt((high - 0xa0) * 256 + low)
  if (high < 0xf4) return BigInt(low * 1_024)
  return NUMBERS[low % NUMBERS.length] ?? 0n
}
