import { renderMib, renderNumber } from '../origin.ts'
import { judgeAtLeast, type Ratio, renderRange, renderRatio, summarize, verdict } from '../report.ts'
import { median } from '../statistics.ts'
import type { EventsMeasurement } from './events.ts'
import { BOTH, FASTIFY, type Growth, OURS, type TransferRun } from './transfers.ts'

/** What a run of the bench measures. */
export interface StreamsMeasurements {
  readonly transfers: readonly TransferMeasurement[]
  readonly growth: readonly GrowthMeasurement[]
  readonly events: EventsMeasurement
}

/** A transfer on a server; runs of the same index were made one after the other. */
export interface TransferMeasurement {
  readonly name: string
  readonly server: string
  readonly mib: number
  readonly runs: readonly TransferRun[]
}

export interface GrowthMeasurement extends Growth {
  readonly server: string
  readonly mib: number
}

/** Minimum throughput in both directions, relative to Fastify. */
const MIN_RATE = 0.5

/** Maximum growth of the resident memory while a large body passes in both directions. */
const MAX_GROWTH_BYTES = 40 * 1_048_576

export function renderStreams({ transfers, growth, events }: StreamsMeasurements): string {
  return [renderTransfers(transfers), renderGrowth(growth), renderEvents(events)].join('\n\n')
}

function renderTransfers(transfers: readonly TransferMeasurement[]): string {
  const rows = transfers.map((measured) => {
    const rate = ratioTo(measured, transfers, 'mibPerSecond')
    const cpu = ratioTo(measured, transfers, 'cpuMicrosPerMib')
    const cells = [
      ...[measured.name, measured.server, measured.mib],
      ...[renderNumber(rate.median, 2), renderRange(rate), renderNumber(cpu.median, 2), renderRange(cpu)],
      renderNumber(median(measured.runs.map(({ mibPerSecond }) => mibPerSecond)), 0),
      renderNumber(median(measured.runs.map(({ cpuMicrosPerMib }) => cpuMicrosPerMib)) / 1_000, 2),
    ]
    return `| ${cells.join(' | ')} |`
  })
  const ours = transfers.find(({ name, server }) => name === BOTH && server === OURS)
  const rate = ours && ratioTo(ours, transfers, 'mibPerSecond')
  return [
    '| bodies | server | MiB | relative throughput | 95 % interval | relative CPU | 95 % interval | MiB/s | CPU ms/MiB |',
    '| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
    ...(rate
      ? [
          '',
          `- \`${BOTH}\`: ${renderRatio(rate)} times the throughput of Fastify, ${judgeAtLeast(rate, MIN_RATE)}`,
        ]
      : []),
  ].join('\n')
}

/** In relation to Fastify, run by run. */
function ratioTo(
  { name, runs }: TransferMeasurement,
  transfers: readonly TransferMeasurement[],
  key: keyof TransferRun,
): Ratio {
  const reference = transfers.find((each) => each.name === name && each.server === FASTIFY)
  return summarize(runs.map((run, i) => run[key] / (reference?.runs[i]?.[key] ?? Number.NaN)))
}

function renderGrowth(growth: readonly GrowthMeasurement[]): string {
  const rows = growth.map(({ server, mib, idleBytes, mostBytes }) => {
    const grown = mostBytes - idleBytes
    const limit = server === OURS ? renderMib(MAX_GROWTH_BYTES) : ''
    const judged = server === OURS ? verdict(grown <= MAX_GROWTH_BYTES) : ''
    const cells = [server, mib, renderMib(idleBytes), renderMib(mostBytes), renderMib(grown), limit, judged]
    return `| ${cells.join(' | ')} |`
  })
  return [
    'Resident memory while a body passes in both directions through the filter:',
    '',
    '| server | MiB each way | idle MiB | most MiB | growth MiB | limit MiB | |',
    '| --- | ---: | ---: | ---: | ---: | ---: | --- |',
    ...rows,
  ].join('\n')
}

function renderEvents(measured: EventsMeasurement): string {
  const { clients, workers, intervalMs, events, failed, firstMs, cpuMicrosPerEvent, idleBytes, mostBytes } =
    measured
  const cells = [
    ...[renderNumber(clients, 0), workers, intervalMs, renderNumber(events, 0), failed],
    ...[renderNumber(firstMs, 0), renderNumber(cpuMicrosPerEvent, 0)],
    renderNumber((mostBytes - idleBytes) / 1_024 / clients, 0),
    verdict(failed === 0),
  ]
  return [
    'Clients of server-sent events:',
    '',
    '| clients | threads | interval ms | events | failed clients | first event p99 ms | CPU µs/event | KiB/client | |',
    '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |',
    `| ${cells.join(' | ')} |`,
  ].join('\n')
}
