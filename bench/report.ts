import type { Measurement } from './measure.ts'
import { renderMib, renderNumber } from './origin.ts'
import type { Run } from './run.ts'
import type { Floor, ScenarioSet } from './scenario.ts'
import { median, medianInterval } from './statistics.ts'

/** The part of a set that its table needs; it can be read from the results. */
type TableOptions = Pick<ScenarioSet, 'compared' | 'floors'> & {
  readonly scenarios: readonly { readonly name: string }[]
}

/** The table of a set, and a line for each comparison, each promise and all that went wrong. */
export function renderTable(
  measurements: readonly Measurement[],
  { scenarios, compared, floors = [] }: TableOptions,
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
      .filter((each) => each.scenario === floor.scenario && has(floor.to, each))
      .map((each) => renderFloor(floor, each, shown)),
  )
  return [
    '| scenario | connections | relative CPU | 95 % interval | relative requests/s | 95 % interval | CPU µs/request | requests/s | p50 ms | p99 ms | memory MiB |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
    '',
    ...sentences,
    ...promises,
    ...renderFailures(measurements),
    ...renderGeneratorLimit(shown),
  ]
    .join('\n')
    .trimEnd()
}

export function find(measurements: readonly Measurement[], name: string, connections: number): Measurement {
  const found = measurements.find((each) => each.scenario === name && each.connections === connections)
  if (found) return found
  throw new Error(`nothing measured for ${name} at ${connections} connections`)
}

function renderRow(measured: Measurement, reference: Measurement): string {
  const cpu = ratioTo(measured, reference, 'cpuMicrosPerRequest')
  const rate = ratioTo(measured, reference, 'requestsPerSecond')
  const cells = [
    measured.scenario,
    measured.connections,
    renderNumber(cpu.median, 2),
    renderRange(cpu),
    renderNumber(rate.median, 3),
    renderRange(rate, 3),
    renderNumber(measured.cpuMicrosPerRequest, 1),
    renderNumber(measured.requestsPerSecond, 0),
    renderNumber(measured.p50Ms, 2),
    renderNumber(measured.p99Ms, 2),
    renderMib(measured.memoryBytes),
  ]
  return `| ${cells.join(' | ')} |`
}

/** A figure in relation to another's: the median over the runs, and its 95 % interval ({@link medianInterval}). */
export interface Ratio {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** Compares runs that were made one after the other, so that a slow minute slows both. */
export function ratioTo({ runs }: Measurement, reference: Measurement, key: keyof Run): Ratio {
  return summarize(
    runs.flatMap((run) => {
      const other = reference.runs.find(({ number }) => number === run.number)
      return other ? [run[key] / other[key]] : []
    }),
  )
}

/** The median of ratios, and its interval. */
export function summarize(ratios: readonly number[]): Ratio {
  return { median: median(ratios), ...medianInterval(ratios) }
}

/** As in `0.51 to 1.02`. */
export function renderRange({ least, most }: Ratio, digits = 2): string {
  return `${renderNumber(least, digits)} to ${renderNumber(most, digits)}`
}

/** As in `0.69 (0.51 to 1.02)`. */
export function renderRatio(ratio: Ratio, digits = 2): string {
  return `${renderNumber(ratio.median, digits)} (${renderRange(ratio, digits)})`
}

function renderComparison(better: Measurement, worse: Measurement): string {
  const rate = renderRatio(ratioTo(better, worse, 'requestsPerSecond'), 1)
  const cpu = renderRatio(ratioTo(worse, better, 'cpuMicrosPerRequest'), 1)
  const pair = `\`${better.scenario}\` against \`${worse.scenario}\`, ${renderConnections(better)}`
  return `- ${pair}: ${rate} times the requests/s. \`${worse.scenario}\` needs ${cpu} times the CPU per request.`
}

function renderFloor(floor: Floor, measured: Measurement, measurements: readonly Measurement[]): string {
  const reference = find(measurements, floor.to, measured.connections)
  const pair = `\`${floor.scenario}\` to \`${floor.to}\`, ${renderConnections(measured)}`
  if ('minRate' in floor) {
    const rate = ratioTo(measured, reference, 'requestsPerSecond')
    return `- ${pair}: ${renderRatio(rate)} times the requests/s, ${judgeAtLeast(rate, floor.minRate)}`
  }
  const cpu = ratioTo(measured, reference, 'cpuMicrosPerRequest')
  return `- ${pair}: ${renderRatio(cpu)} of the CPU per request, ${judgeAtMost(cpu, floor.maxCpu)}`
}

function renderConnections({ connections }: Measurement): string {
  return connections === 1 ? '1 connection' : `${connections} connections`
}

/** As in `at most 1.1: kept`. */
export function judgeAtMost(ratio: Ratio, limit: number): string {
  return `at most ${limit}: ${verdictOn(ratio, limit, ratio.median <= limit)}`
}

/** As in `at least 0.9: **not kept**`. */
export function judgeAtLeast(ratio: Ratio, limit: number): string {
  return `at least ${limit}: ${verdictOn(ratio, limit, ratio.median >= limit)}`
}

/** The median decides. If the interval includes the limit, another measurement may decide differently. */
export function verdictOn({ least, most }: Ratio, limit: number, isKept: boolean): string {
  return verdict(isKept) + (least < limit && limit < most ? ', within the interval' : '')
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

/** The load from which on the load generator is the bottleneck. */
const GENERATOR_LIMIT = 0.9

function renderGeneratorLimit(measurements: readonly Measurement[]): string[] {
  const limited = measurements
    .filter(({ generatorLoad }) => generatorLoad >= GENERATOR_LIMIT)
    .map(({ scenario, connections, generatorLoad }) => {
      return `\`${scenario}\` at ${connections} (${renderNumber(generatorLoad * 100, 0)} % busy)`
    })
  if (limited.length === 0) return []
  return [
    `- **The load generator was the limit** of ${limited.join(', ')}: their requests/s are what it can send. Their CPU per request is not affected.`,
  ]
}
