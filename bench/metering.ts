import type { FastifyRequest } from 'fastify'
import type { Caller, ObserveCall } from '../src/observe/observe.ts'
import { CALLER, load } from './shipped.ts'
import { median } from './statistics.ts'

/** Nanoseconds per call, in each round: as they are without `--admin`, and counted. */
export interface MeteringMeasurement {
  readonly rounds: readonly { readonly plain: number; readonly metered: number }[]
  /** The median of the differences. */
  readonly addedNanos: number
  /** Between the fastest round of each: a busy machine only adds. */
  readonly leastAddedNanos: number
}

const { Meters } = (await load('observe/metrics.js')) as typeof import('../src/observe/metrics.ts')
const { observeCalls } = (await load('observe/observe.js')) as typeof import('../src/observe/observe.ts')

const CALLS = 200_000

/**
 * Measures the overhead of counting and timing a call, in this process, without HTTP and without a guest: the
 * clock and the counters. In turns with the same calls uncounted.
 */
export async function measureMetering(rounds: number): Promise<MeteringMeasurement> {
  const meter = new Meters().of({ route: '/', plugin: 'none', digest: '000000000000' })
  const measured: { plain: number; metered: number }[] = []
  for (let round = -3; round < rounds; round++) {
    const both = { plain: time(observeCalls({})), metered: time(observeCalls({ meter })) }
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

/** Reports to an observer as an engine does. */
function callNoGuest({ observer }: Caller): Uint8Array {
  observer?.queued()
  observer?.started()
  observer?.ended()
  return OUTPUT
}

/** @returns nanoseconds per call. */
function time(observe: ObserveCall | undefined): number {
  const request = {} as FastifyRequest
  const begun = performance.now()
  for (let call = 0; call < CALLS; call++) {
    const observer = observe?.(request)
    callNoGuest({ log: CALLER.log, observer })
    observer?.returned()
    observer?.settled('ok')
  }
  return ((performance.now() - begun) / CALLS) * 1e6
}
