import type { Measurement } from './measure.ts'
import { renderMib, renderNumber } from './origin.ts'
import type { Run } from './run.ts'
import type { Floor, ScenarioSet } from './scenario.ts'
import { median } from './statistics.ts'

/** The table of a set, and a line for each comparison, each promise and all that went wrong. */
export function renderTable(
  measurements: readonly Measurement[],
  { scenarios, compared, floors = [] }: Pick<ScenarioSet, 'scenarios' | 'compared' | 'floors'>,
): string {
  const reference = scenarios[0]?.name ?? ''
  const shown = measurements.filter(({ runs }) => runs.length > 0)
  const has = (name: string, { connections }: Measurement) =>
    shown.some((each) => each.scenario === name && each.connections === connections)
  const rows = shown.map((each) => renderRow(each, find(shown, reference, each.connections)))
  const sentences = compared.flatMap(([better, worse]) =>
    shown
      .filter((each) => each.scenario === better && has(worse, each))
      .map((each) => renderComparison(each, find(shown, worse, each.connections))),
  )
  const promises = floors.flatMap((floor) =>
    shown
      .filter((each) => each.scenario === floor.scenario && (!('to' in floor) || has(floor.to, each)))
      .map((each) => renderFloor(floor, each, shown)),
  )
  return [
    '| scenario | connections | CPU µs/request | spread | relative CPU | requests/s | spread | relative requests/s | p50 ms | p99 ms | p99.9 ms | memory MiB |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
    '',
    ...sentences,
    ...promises,
    ...renderFailures(measurements),
    ...renderGeneratorLimit(shown),
  ].join('\n')
}

export function find(measurements: readonly Measurement[], name: string, connections: number): Measurement {
  const found = measurements.find((each) => each.scenario === name && each.connections === connections)
  if (found) return found
  throw new Error(`nothing measured for ${name} at ${connections} connections`)
}

function renderRow(measured: Measurement, reference: Measurement): string {
  const cells = [
    measured.scenario,
    measured.connections,
    renderNumber(measured.cpuMicrosPerRequest, 1),
    renderSpread(measured, 'cpuMicrosPerRequest'),
    renderNumber(ratio(measured, reference, 'cpuMicrosPerRequest'), 2),
    renderNumber(measured.requestsPerSecond, 0),
    renderSpread(measured, 'requestsPerSecond'),
    renderNumber(ratio(measured, reference, 'requestsPerSecond'), 3),
    renderNumber(measured.p50Ms, 2),
    renderNumber(measured.p99Ms, 2),
    renderNumber(measured.p999Ms, 2),
    renderMib(measured.memoryBytes),
  ]
  return `| ${cells.join(' | ')} |`
}

/** Between the least and the most of the runs, as a part of the median: how noisy the machine was. */
function renderSpread({ runs, ...medians }: Measurement, key: keyof Run): string {
  const values = runs.map((run) => run[key])
  return `${renderNumber(((Math.max(...values) - Math.min(...values)) / medians[key]) * 100, 0)} %`
}

/** The median of the ratios of runs that were made one after the other: a slow minute slowed both. */
export function ratio({ runs }: Measurement, reference: Measurement, key: keyof Run): number {
  return median(
    runs.flatMap((run) => {
      const other = reference.runs.find(({ number }) => number === run.number)
      return other ? [run[key] / other[key]] : []
    }),
  )
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

function renderFailures(measurements: readonly Measurement[]): string[] {
  return measurements.flatMap(({ scenario, answered, failed, broken }) => [
    ...(failed > 0
      ? [`- \`${scenario}\`: **${failed} answers were wrong, failed or lost**, of ${answered}`]
      : []),
    ...(broken.length > 0 ? [`- \`${scenario}\`: **${broken.length} runs broke off**: ${broken[0]}`] : []),
  ])
}

/** From here on the load generator is what is measured. */
const GENERATOR_LIMIT = 0.9

function renderGeneratorLimit(measurements: readonly Measurement[]): string[] {
  const limited = measurements
    .filter(({ generatorLoad }) => generatorLoad >= GENERATOR_LIMIT)
    .map(({ scenario, connections, generatorLoad }) => {
      return `\`${scenario}\` at ${connections} (${renderNumber(generatorLoad * 100, 0)} % busy)`
    })
  if (limited.length === 0) return []
  return [
    `- **The load generator was the limit** of: ${limited.join(', ')}. Their requests/s are what it can send; their CPU per request is not touched by that.`,
  ]
}
