import type { Bench, Report } from '../bench.ts'
import { renderMib, renderNumber } from '../origin.ts'
import type { Settings } from '../settings.ts'
import { measureEvents } from './events.ts'
import {
  type GrowthMeasurement,
  renderStreams,
  type StreamsMeasurements,
  type TransferMeasurement,
} from './report.ts'
import {
  BOTH,
  measureGrowth,
  measureTransfer,
  openTransfers,
  type Transfer,
  type TransferRun,
} from './transfers.ts'

/** Measures streams: throughput and CPU beside Fastify, memory while a large body passes, and many clients of events. */
export const streams: Bench = { name: 'streams', minutes: 6, run }

const RUNS = 10

/** MiB of each transfer. */
const MIB = 256
const QUICK_MIB = 32

/** MiB of the transfer during which the memory is watched, by default. */
const LARGE_MIB = 1_024

const INTERVAL_MS = 500

async function run({ runs, calls, quick }: Settings, progress: (line: string) => void): Promise<Report> {
  const rounds = runs ?? (quick ? 1 : RUNS)
  const large = calls ?? (quick ? 2 * QUICK_MIB : LARGE_MIB)
  const transfers = await openTransfers()
  const data: StreamsMeasurements = {
    transfers: await measureTransfers(transfers, rounds, quick ? QUICK_MIB : MIB, progress),
    growth: await measureGrowths(transfers, large, progress),
    events: await measureEvents(quick ? INTERVAL_MS / 10 : INTERVAL_MS),
  }
  return { args: ` --runs ${rounds} --calls ${large}`, markdown: renderStreams(data), data }
}

/** Interleaved, so that a noisy minute affects all. */
async function measureTransfers(
  transfers: readonly Transfer[],
  rounds: number,
  mib: number,
  progress: (line: string) => void,
): Promise<TransferMeasurement[]> {
  const measured = transfers.map((transfer) => ({ transfer, runs: [] as TransferRun[] }))
  for (let round = 1; round <= rounds; round++) {
    for (const { transfer, runs } of measured) {
      const run = await measureTransfer(transfer, mib)
      runs.push(run)
      const figures = `${renderNumber(run.mibPerSecond, 0)} MiB/s, ${renderNumber(run.cpuMicrosPerMib, 0)} us CPU/MiB`
      progress(`run ${round}: ${transfer.name}, ${transfer.server}: ${figures}`)
    }
  }
  return measured.map(({ transfer: { name, server }, runs }) => ({ name, server, mib, runs }))
}

async function measureGrowths(
  transfers: readonly Transfer[],
  mib: number,
  progress: (line: string) => void,
): Promise<GrowthMeasurement[]> {
  const measured: GrowthMeasurement[] = []
  for (const transfer of transfers.filter(({ name }) => name === BOTH)) {
    const growth = await measureGrowth(transfer, mib)
    measured.push({ server: transfer.server, mib, ...growth })
    progress(
      `${mib} MiB each way, ${transfer.server}: + ${renderMib(growth.mostBytes - growth.idleBytes)} MiB`,
    )
  }
  return measured
}
