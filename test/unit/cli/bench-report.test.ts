import { expect, test } from 'vitest'
import { Latencies } from '../../../src/cli/bench/load.ts'
import {
  type ComparisonRow,
  type Measurement,
  refuseProblems,
  renderComparison,
  renderMeasurement,
  rowToJson,
  toJson,
} from '../../../src/cli/bench/report.ts'

/** A measurement with these latencies. */
function measurementOf(latenciesMs: readonly number[], more: Partial<Measurement> = {}): Measurement {
  const latencies = new Latencies()
  for (const ms of latenciesMs) latencies.record(ms)
  return {
    ...{ latencies, seconds: 2, sent: 1_001, answered: 1_000, wrong: 0, failed: 0, errors: 0 },
    ...{ compared: 'each body', cpuMicrosPerRequest: 12.345 },
    ...more,
  }
}

const SLOW = { wrong: 1, failed: 22, errors: 333 }
const SLOW_TEXT = '1 wrong bodies, 22 failed, 333 connections that broke or timed out'

test('one measurement is shown with its rate, its percentiles, and what was compared', () => {
  const lines = renderMeasurement(measurementOf([1.23456]), false).split('\n')
  expect(lines.slice(0, 9)).toEqual([
    '  requests/s       500',
    '  CPU per request  12.3 us (server process)',
    '  p50              1.235 ms',
    '  p90              1.235 ms',
    '  p99              1.235 ms',
    '  p99.9            1.235 ms',
    '  responses        1000, none wrong, none failed',
    '  compared         each body',
    '',
  ])
  expect(renderMeasurement(measurementOf([1], SLOW), false)).toContain(
    `responses        1000, ${SLOW_TEXT}\n`,
  )
})

test('a bar is as long as its share, and never empty where there is a value', () => {
  const many = [...Array(400).fill(1), ...Array(200).fill(10), 100]
  const bars = (isTerminal: boolean) =>
    renderMeasurement(measurementOf(many), isTerminal)
      .split('\n\n')[1]
      ?.trimEnd()
      .split('\n')
      .map((line) => / ms {2}(\S*) +(\d+)$/.exec(line)?.slice(1))
  const empty = ['', '0']
  const found = (isTerminal: boolean) => bars(isTerminal)?.filter((bar) => `${bar}` !== `${empty}`)
  expect(bars(false)?.length).toBeGreaterThan(3)
  expect(bars(false)?.length).toBeLessThanOrEqual(12)
  expect(found(false)).toEqual([
    ['#'.repeat(40), '400'],
    ['#'.repeat(20), '200'],
    ['#', '1'],
  ])
  expect(found(true)).toEqual([
    ['█'.repeat(40), '400'],
    ['█'.repeat(20), '200'],
    ['▏', '1'],
  ])
  for (const [place, eighth] of ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'].entries()) {
    const values = [...Array(40 * 8).fill(1), ...Array(8 + place).fill(10)]
    expect(renderMeasurement(measurementOf(values), true)).toMatch(
      new RegExp(` {2}█${eighth} +${8 + place}$`, 'm'),
    )
  }
})

const ROWS: readonly ComparisonRow[] = [
  ['none', 'not measured: it needs more'],
  ['kernel', measurementOf([1])],
  ['kernel, 2 workers', measurementOf([12.5], { answered: 31_000, cpuMicrosPerRequest: 5, wrong: 3 })],
]

test('a comparison is a table whose speeds are relative to the first that was measured', () => {
  expect(renderComparison(ROWS)).toBe(
    [
      '                     requests/s          p50 ms  p99 ms  CPU us/request       responses',
      '  none               not measured: it needs more',
      '  kernel                    500   x1.00   1.000   1.000            12.3           right',
      '  kernel, 2 workers       15500  x31.00  12.500  12.500             5.0  3 wrong bodies',
      '',
      'Compared:',
      '  kernel: each body',
      '  kernel, 2 workers: each body',
      '',
    ].join('\n'),
  )
})

test('as JSON a measurement has the same figures, and latencies to a microsecond', () => {
  const figures = { seconds: 2, sent: 1_001, answered: 1_000, wrong: 0, failed: 0, errors: 0 }
  const expected = {
    requestsPerSecond: 500,
    latencyMs: { mean: 1.235, p50: 1.235, p90: 1.235, p99: 1.235, 'p99.9': 1.235 },
    ...{ ...figures, compared: 'each body', cpuMicrosPerRequest: 12.345 },
  }
  expect(toJson(measurementOf([1.23456]))).toEqual(expected)
  expect(rowToJson(['a', measurementOf([1.23456])])).toEqual({ name: 'a', ...expected })
  expect(rowToJson(['a', 'not measured'])).toEqual({ name: 'a', problem: 'not measured' })
})

test('wrong responses of any row are refused, with its name', () => {
  const refused = (message: string) =>
    expect.objectContaining({
      code: 'WASM_SERVE_BENCH_ANSWERS_WRONG',
      message: expect.stringContaining(message),
    })
  refuseProblems([
    ['a', 'not measured'],
    ['b', measurementOf([1])],
  ])
  expect(() => refuseProblems([['', measurementOf([1], SLOW)]])).toThrow(refused(`correct: ${SLOW_TEXT}`))
  expect(() => refuseProblems(ROWS)).toThrow(refused('correct: kernel, 2 workers: 3 wrong bodies'))
})
