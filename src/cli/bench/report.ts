import { BenchAnswersError } from '../../errors/errors.ts'
import type { LoadResult } from './load.ts'

/** The measurement of one variant. */
export interface Measurement extends LoadResult {
  /** How answers were checked, as text. */
  readonly compared: string
  /** CPU time of the server process per request, in microseconds. */
  readonly cpuMicrosPerRequest: number
}

/** A row of a comparison: the measurement, or the reason that there is none. */
export type ComparisonRow = readonly [name: string, measurement: Measurement | string]

/** Renders one measurement: the figures and the distribution of latencies. */
export function renderMeasurement(measurement: Measurement, isTerminal: boolean): string {
  const { latencies, compared, cpuMicrosPerRequest } = measurement
  const rows = [
    ['requests/s', rate(measurement).toFixed(0)],
    ['CPU per request', `${cpuMicrosPerRequest.toFixed(1)} us (server process)`],
    ...PERCENTILES.map((percent) => [`p${percent}`, `${latencies.percentile(percent).toFixed(3)} ms`]),
    ['responses', describeAnswers(measurement)],
    ['compared', compared],
  ]
  const lines = rows.map(([name = '', value]) => `  ${name.padEnd(15)}  ${value}`)
  return `${lines.join('\n')}\n\n${renderHistogram(measurement, isTerminal)}\n`
}

/** Renders a table. Speed is relative to the first measured row. */
export function renderComparison(compared: readonly ComparisonRow[]): string {
  const first = compared.map(([, each]) => each).find((each) => typeof each !== 'string')
  const rows = compared.map(([name, each]) =>
    typeof each === 'string'
      ? [name, each]
      : [
          name,
          rate(each).toFixed(0),
          first ? `x${(rate(each) / rate(first)).toFixed(2)}` : '',
          each.latencies.percentile(50).toFixed(3),
          each.latencies.percentile(99).toFixed(3),
          each.cpuMicrosPerRequest.toFixed(1),
          measurementProblems(each) ?? 'right',
        ],
  )
  const table = [['', 'requests/s', '', 'p50 ms', 'p99 ms', 'CPU us/request', 'responses'], ...rows]
  const measured = table.filter((row) => row.length > 2)
  const width = (column: number) => Math.max(...measured.map((row) => row[column]?.length ?? 0))
  const nameWidth = Math.max(...table.map(([name = '']) => name.length))
  const lines = table.map(([name = '', ...cells]) => {
    const isMeasured = cells.length > 1
    const padded = cells.map((cell, column) => (isMeasured ? cell.padStart(width(column + 1)) : cell))
    return `  ${[name.padEnd(nameWidth), ...padded].join('  ')}`.trimEnd()
  })
  const how = compared.flatMap(([name, each]) =>
    typeof each === 'string' ? [] : [`  ${name}: ${each.compared}`],
  )
  return `${lines.join('\n')}\n\nCompared:\n${how.join('\n')}\n`
}

/** The `--json` output for one measurement. */
export function toJson(measurement: Measurement): object {
  const { latencies, ...rest } = measurement
  const percentiles = PERCENTILES.map((percent) => [`p${percent}`, rounded(latencies.percentile(percent))])
  return {
    requestsPerSecond: rate(measurement),
    latencyMs: { mean: rounded(latencies.meanMs), ...Object.fromEntries(percentiles) },
    ...rest,
  }
}

/** The `--json` output for a row of a comparison. */
export function rowToJson([name, each]: ComparisonRow): object {
  return typeof each === 'string' ? { name, problem: each } : { name, ...toJson(each) }
}

/** @throws {@link BenchAnswersError} if a response was wrong. */
export function refuseProblems(compared: readonly ComparisonRow[]): void {
  const problems = compared.flatMap(([name, each]) => {
    const found = typeof each === 'string' ? undefined : measurementProblems(each)
    return found === undefined ? [] : [name ? `${name}: ${found}` : found]
  })
  if (problems.length > 0) throw new BenchAnswersError(problems.join('; '))
}

const PERCENTILES = [50, 90, 99, 99.9]

function rate({ answered, seconds }: Measurement): number {
  return answered / seconds
}

/** @returns undefined if all answers were correct. */
function measurementProblems({ wrong, failed, errors }: Measurement): string | undefined {
  const problems = [
    [wrong, 'wrong bodies'],
    [failed, 'failed'],
    [errors, 'connections that broke or timed out'],
  ] as const
  const found = problems.filter(([count]) => count > 0)
  return found.length === 0 ? undefined : found.map(([count, what]) => `${count} ${what}`).join(', ')
}

function describeAnswers(measurement: Measurement): string {
  return `${measurement.answered}, ${measurementProblems(measurement) ?? 'none wrong, none failed'}`
}

const ROWS = 12
const BAR_WIDTH = 40
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']

function renderHistogram({ latencies }: Measurement, isTerminal: boolean): string {
  const bars = latencies.bars(ROWS)
  const most = Math.max(...bars.map(({ count }) => count))
  const lines = bars.map(({ fromMs, toMs, count }) => {
    const range = `${fromMs.toFixed(3).padStart(9)} - ${toMs.toFixed(3).padStart(9)} ms`
    return `  ${range}  ${renderBar(count / most, isTerminal).padEnd(BAR_WIDTH)}  ${count}`
  })
  return lines.join('\n')
}

/** A value above zero always draws something: a histogram has to show one outlier in a million. */
function renderBar(share: number, isTerminal: boolean): string {
  if (!isTerminal) return '#'.repeat(share === 0 ? 0 : Math.max(1, Math.round(share * BAR_WIDTH)))
  const eighths = share === 0 ? 0 : Math.max(1, Math.round(share * BAR_WIDTH * 8))
  return '█'.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? '')
}

/** Rounds to a microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
