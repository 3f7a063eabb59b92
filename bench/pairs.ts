import { CALLER, load } from './shipped.ts'

type Instance = import('../src/runtime/runtime.ts').Instance

const { giveBack } = (await load(
  'platform/buffer-pool.js',
)) as typeof import('../src/platform/buffer-pool.ts')

/** What is called. */
export type Paired = Pick<Instance, 'call' | 'close'>

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
  pair: readonly [Paired, Paired],
  { exportName, input, rounds, warmUpRounds, roundMicros }: PairedCalls,
): Promise<(readonly [number, number])[]> {
  try {
    const [one = 1] = pair.map((instance) => warmUp(instance, exportName, input))
    const count = Math.max(1, Math.ceil(roundMicros / one))
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

/** Calls for so long, in ms, before the length of a call is known: the first ones take many times as long. */
const WARM_UP_MS = 100

/** @returns the microseconds of a call at the end. */
function warmUp(instance: Paired, exportName: string, input: Uint8Array): number {
  const end = performance.now() + WARM_UP_MS
  let count = 1
  let micros = 0
  while (performance.now() < end) {
    const start = performance.now()
    callMany(instance, exportName, input, count)
    micros = ((performance.now() - start) * 1_000) / count
    count = Math.ceil(10_000 / micros)
  }
  return micros
}

function callMany(instance: Paired, exportName: string, input: Uint8Array, count: number) {
  let output = new Uint8Array()
  const before = process.cpuUsage()
  for (let i = 0; i < count; i++) {
    giveBack(output) // as a server does
    output = instance.call(exportName, input, CALLER) as Uint8Array<ArrayBuffer>
  }
  const { user, system } = process.cpuUsage(before)
  return { micros: (user + system) / count, output }
}
