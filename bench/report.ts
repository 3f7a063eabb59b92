import type { Measurement } from './measure.ts'
import { type Origin, renderNumber, renderOrigin } from './origin.ts'
import type { Run } from './run.ts'
import type { Floor, ScenarioSet } from './scenario.ts'
import { median } from './statistics.ts'

/** Renders what was measured of a set as Markdown: where it comes from, then {@link renderTable}. */
export function renderSet(origin: Origin, measurements: readonly Measurement[], set: ScenarioSet): string {
  return `${renderOrigin(origin)}\n\n${renderTable(measurements, set)}`
}

/** The table of a set, and a line for each comparison and each promise. */
export function renderTable(
  measurements: readonly Measurement[],
  { scenarios, compared, floors = [] }: ScenarioSet,
): string {
  const reference = scenarios[0]?.name ?? ''
  const rows = measurements.map((each) => renderRow(each, find(measurements, reference, each.connections)))
  const sentences = compared.flatMap(([better, worse]) =>
    measurements
      .filter(({ scenario }) => scenario === better)
      .map((each) => renderComparison(each, find(measurements, worse, each.connections))),
  )
  const promises = floors.flatMap((floor) =>
    measurements
      .filter(({ scenario }) => scenario === floor.scenario)
      .map((each) => renderFloor(floor, each, measurements)),
  )
  return [
    '| scenario | connections | requests/s | spread | p50 ms | p99 ms | CPU µs/request | relative requests/s | relative CPU |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
    '',
    ...sentences,
    ...promises,
  ].join('\n')
}

function find(measurements: readonly Measurement[], name: string, connections: number): Measurement {
  const found = measurements.find((each) => each.scenario === name && each.connections === connections)
  if (found) return found
  throw new Error(`nothing measured for ${name} at ${connections} connections`)
}

function renderRow(measured: Measurement, reference: Measurement): string {
  const cells = [
    measured.scenario,
    measured.connections,
    renderNumber(measured.requestsPerSecond, 0),
    `${renderNumber(spread(measured) * 100, 0)} %`,
    renderNumber(measured.p50Ms, 2),
    renderNumber(measured.p99Ms, 2),
    renderNumber(measured.cpuMicrosPerRequest, 1),
    renderNumber(ratio(measured, reference, 'requestsPerSecond'), 3),
    renderNumber(ratio(measured, reference, 'cpuMicrosPerRequest'), 2),
  ]
  return `| ${cells.join(' | ')} |`
}

/** Between the slowest and the fastest run, as a part of the median: how noisy the machine was. */
function spread({ runs, requestsPerSecond }: Measurement): number {
  const rates = runs.map((run) => run.requestsPerSecond)
  return (Math.max(...rates) - Math.min(...rates)) / requestsPerSecond
}

/** The median of the ratios of runs that were made one after the other: a slow minute slowed both. */
function ratio({ runs }: Measurement, reference: Measurement, key: keyof Run): number {
  return median(runs.map((run, number) => run[key] / (reference.runs[number]?.[key] ?? Number.NaN)))
}

function renderComparison(better: Measurement, worse: Measurement): string {
  const rate = renderNumber(ratio(better, worse, 'requestsPerSecond'), 1)
  const cpu = renderNumber(ratio(worse, better, 'cpuMicrosPerRequest'), 1)
  const names = `\`${better.scenario}\` to \`${worse.scenario}\``
  return `- ${names}, connections: ${better.connections}: ${rate} times the requests/s, 1/${cpu} of the CPU per request`
}

function renderFloor(floor: Floor, measured: Measurement, measurements: readonly Measurement[]): string {
  if ('maxP99Ms' in floor) {
    const { p99Ms } = measured
    return `- \`${floor.scenario}\`: p99 ${renderNumber(p99Ms, 1)} ms, promised at most ${floor.maxP99Ms}: ${verdict(p99Ms <= floor.maxP99Ms)}`
  }
  const reference = find(measurements, floor.to, measured.connections)
  const names = `\`${floor.scenario}\` to \`${floor.to}\``
  if ('minRate' in floor) {
    const rate = ratio(measured, reference, 'requestsPerSecond')
    return `- ${names}: ${renderNumber(rate, 2)} times the requests/s, promised at least ${floor.minRate}: ${verdict(rate >= floor.minRate)}`
  }
  const cpu = ratio(measured, reference, 'cpuMicrosPerRequest')
  return `- ${names}: ${renderNumber(cpu, 2)} of the CPU per request, promised at most ${floor.maxCpu}: ${verdict(cpu <= floor.maxCpu)}`
}

export function verdict(isKept: boolean): string {
  return isKept ? 'kept' : '**not kept**'
}
