import { expect, test } from 'vitest'
import { renderStreams, type StreamsMeasurements } from '../../../bench/streams/report.ts'
import { BOTH, FASTIFY, OURS } from '../../../bench/streams/transfers.ts'

const MIB = 1_048_576

/** @param rates - MiB/s of runs. */
function measured(rates: readonly number[], growthMib: number, failed = 0): StreamsMeasurements {
  const runs = (mibPerSecond: readonly number[]) =>
    mibPerSecond.map((rate) => ({ mibPerSecond: rate, cpuMicrosPerMib: 1_000 }))
  return {
    transfers: [
      { name: BOTH, server: FASTIFY, mib: 256, runs: runs(rates.map(() => 1_000)) },
      { name: BOTH, server: OURS, mib: 256, runs: runs(rates) },
    ],
    growth: [
      { server: FASTIFY, mib: 1_024, idleBytes: 60 * MIB, mostBytes: 160 * MIB },
      { server: OURS, mib: 1_024, idleBytes: 90 * MIB, mostBytes: (90 + growthMib) * MIB },
    ],
    events: {
      ...{ clients: 4, workers: 4, intervalMs: 500, events: 40, failed, firstMs: 3, cpuMicrosPerEvent: 200 },
      ...{ idleBytes: MIB, mostBytes: 2 * MIB },
    },
  }
}

test('the throughput of runs is compared with those of Fastify, and judged by the median', () => {
  expect(renderStreams(measured([400, 600, 700], 10))).toContain(
    '0.60 (0.40 to 0.70) times the throughput of Fastify, at least 0.5: kept, within the interval',
  )
  expect(renderStreams(measured([400, 450, 490], 10))).toContain('at least 0.5: **not kept**')
})

test('the growth of the memory has a limit; that of Fastify is for comparison', () => {
  expect(renderStreams(measured([600], 40))).toContain('| 90.0 | 130.0 | 40.0 | 40.0 | kept |')
  expect(renderStreams(measured([600], 41))).toContain('| 90.0 | 131.0 | 41.0 | 40.0 | **not kept** |')
  expect(renderStreams(measured([600], 41))).toContain(`| ${FASTIFY} | 1024 | 60.0 | 160.0 | 100.0 |  |  |`)
})

test('no client of events may fail', () => {
  expect(renderStreams(measured([600], 1))).toContain('| 4 | 4 | 500 | 40 | 0 | 3 | 200 | 256 | kept |')
  expect(renderStreams(measured([600], 1, 1))).toContain('| 40 | 1 | 3 | 200 | 256 | **not kept** |')
})
