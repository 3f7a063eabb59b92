import type { FastifyReply } from 'fastify'
import type { Engine } from '../src/engine/engine.ts'
import type { Caller } from '../src/runtime/runtime.ts'
import { median } from './statistics.ts'

/** Nanoseconds per call, in each round: as they are without `--admin`, and counted. */
export interface MeteringMeasurement {
  readonly rounds: readonly { readonly plain: number; readonly metered: number }[]
  /** The median of the differences. */
  readonly addedNanos: number
  /** Between the fastest round of each: a busy machine only adds. */
  readonly leastAddedNanos: number
}

/** What is shipped, before it is bundled; not its source: what runs TypeScript wraps each function. */
const load = (path: string) => import(new URL(`../lib/${path}`, import.meta.url).href)
const { Meters } = (await load('observe/meters.js')) as typeof import('../src/observe/meters.ts')
const { meterContract } = (await load(
  'observe/metered-contract.js',
)) as typeof import('../src/observe/metered-contract.ts')

const CALLS = 200_000

/**
 * Measures what it adds to a call that it is counted and timed, in this process, without HTTP and without a guest: the
 * clocks, the wrapped engine and the wrapped contract. In turns with the same calls uncounted.
 */
export async function measureMetering(rounds: number): Promise<MeteringMeasurement> {
  const meters = new Meters()
  const meter = meters.of({ route: '/', plugin: 'none', digest: '000000000000' })
  const contract = { name: 'none', input: () => OUTPUT, answer: () => undefined }
  const plain = () => time(noGuest(), contract)
  const metered = () => time(meters.engine(noGuest(), meter), meterContract(contract))
  const measured: { plain: number; metered: number }[] = []
  for (let round = -3; round < rounds; round++) {
    const both = { plain: plain(), metered: metered() }
    if (round >= 0) measured.push(both)
  }
  const added = measured.map((round) => round.metered - round.plain)
  const least = (of: 'plain' | 'metered') => Math.min(...measured.map((round) => round[of]))
  return {
    rounds: measured,
    addedNanos: median(added),
    leastAddedNanos: least('metered') - least('plain'),
  }
}

export function renderMetering({ addedNanos, leastAddedNanos }: MeteringMeasurement): string {
  return `Counted and timed, a call costs ${Math.round(addedNanos)} ns more (median of the rounds; ${Math.round(leastAddedNanos)} ns between the fastest of each).`
}

const OUTPUT = new Uint8Array(1)

/** Runs the call's clock as an engine does. */
function noGuest(): Engine {
  const call = (_exportName: string, _input: Uint8Array, { callTiming }: Caller): Uint8Array => {
    callTiming?.asked()
    callTiming?.begun()
    callTiming?.ended()
    return OUTPUT
  }
  return { name: 'inline', ready: Promise.resolve(), call, close: async () => undefined } as unknown as Engine
}

/** @returns nanoseconds per call. */
function time(engine: Engine, contract: Parameters<typeof meterContract>[0]): number {
  const begun = performance.now()
  for (let call = 0; call < CALLS; call++) {
    const request: Partial<Caller> = { callTiming: undefined as never }
    const output = engine.call('none', OUTPUT, request as Caller)
    contract.answer(output as Uint8Array, { request } as FastifyReply)
  }
  return ((performance.now() - begun) / CALLS) * 1e6
}
