import { CALLER, load } from './shipped.ts'

type Instance = import('../src/runtime/runtime.ts').Instance

const { giveBack } = (await load(
  'platform/buffer-pool.js',
)) as typeof import('../src/platform/buffer-pool.ts')

/** Calls of one export with one input. */
interface PairedCalls {
  readonly exportName: string
  readonly input: Uint8Array
  readonly rounds: number
  /** Rounds that are not kept: V8 optimizes a guest only after many calls. */
  readonly warmUpRounds: number
  readonly roundMicros: number
}

/**
 * Measures calls of two instances in this process, without HTTP, in turns, and closes them.
 *
 * @returns the CPU microseconds of a call of each, for each round.
 * @throws Error if the outputs differ.
 */
export async function measurePair(
  pair: readonly [Instance, Instance],
  { exportName, input, rounds, warmUpRounds, roundMicros }: PairedCalls,
): Promise<(readonly [number, number])[]> {
  try {
    const [one] = pair.map((instance) => callMany(instance, exportName, input, WARM_UP_CALLS))
    const count = Math.max(1, Math.ceil(roundMicros / (one?.micros ?? 1)))
    const all: (readonly [number, number])[] = []
    for (let round = -warmUpRounds; round < rounds; round++) {
      const [first, second] = pair.map((instance) => callMany(instance, exportName, input, count))
      if (!first || !second || !Buffer.from(first.output).equals(second.output))
        throw new Error(`${exportName}: the outputs differ`)
      if (round >= 0) all.push([first.micros, second.micros])
    }
    return all
  } finally {
    await Promise.all(pair.map((instance) => instance.close()))
  }
}

const WARM_UP_CALLS = 20

function callMany(instance: Instance, exportName: string, input: Uint8Array, count: number) {
  let output = new Uint8Array()
  const before = process.cpuUsage()
  for (let i = 0; i < count; i++) {
    giveBack(output) // as a server does
    output = instance.call(exportName, input, CALLER) as Uint8Array<ArrayBuffer>
  }
  const { user, system } = process.cpuUsage(before)
  return { micros: (user + system) / count, output }
}
