import { cpus } from 'node:os'
import type { Measurement } from './measure.ts'
import type { ScenarioSet } from './scenario.ts'

/** Everything that is known about one execution of the bench; `--json` writes it. */
export interface Report {
  readonly set: string
  readonly date: string
  readonly command: string
  readonly node: string
  readonly cpu: string
  readonly cores: number
  readonly measurements: readonly Measurement[]
}

/** Adds to the measurements where and how they were made. */
export function makeReport(set: string, command: string, measurements: readonly Measurement[]): Report {
  const cores = cpus()
  return {
    set,
    date: new Date().toISOString().slice(0, 10),
    command,
    node: process.version,
    cpu: cores[0]?.model ?? 'unknown CPU',
    cores: cores.length,
    measurements,
  }
}

/** Renders a report as Markdown: where it comes from, the table, a line for each comparison. */
export function renderReport(report: Report, { scenarios, compared }: ScenarioSet): string {
  const { date, node, cpu, cores, command, measurements } = report
  const reference = scenarios[0]?.name ?? ''
  const rows = measurements.map((each) => renderRow(each, find(measurements, reference, each.connections)))
  const sentences = compared.flatMap(([better, worse]) =>
    measurements
      .filter(({ scenario }) => scenario === better)
      .map((each) => renderComparison(each, find(measurements, worse, each.connections))),
  )
  return [
    `${date}, Node ${node}, ${cpu}, ${cores} cores: \`${command}\``,
    '',
    '| scenario | connections | requests/s | spread | p50 ms | p99 ms | CPU µs/request | relative requests/s | relative CPU |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
    '',
    ...sentences,
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
    render(measured.requestsPerSecond, 0),
    `${render(spread(measured) * 100, 0)} %`,
    render(measured.p50Ms, 2),
    render(measured.p99Ms, 2),
    render(measured.cpuMicrosPerRequest, 1),
    render(measured.requestsPerSecond / reference.requestsPerSecond, 3),
    render(measured.cpuMicrosPerRequest / reference.cpuMicrosPerRequest, 2),
  ]
  return `| ${cells.join(' | ')} |`
}

/** Between the slowest and the fastest run, as a part of the median: how noisy the machine was. */
function spread({ runs, requestsPerSecond }: Measurement): number {
  const rates = runs.map((run) => run.requestsPerSecond)
  return (Math.max(...rates) - Math.min(...rates)) / requestsPerSecond
}

function renderComparison(better: Measurement, worse: Measurement): string {
  const rate = render(better.requestsPerSecond / worse.requestsPerSecond, 1)
  const cpu = render(worse.cpuMicrosPerRequest / better.cpuMicrosPerRequest, 1)
  const names = `\`${better.scenario}\` to \`${worse.scenario}\``
  return `- ${names}, connections: ${better.connections}: ${rate} times the requests/s, 1/${cpu} of the CPU per request`
}

function render(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
