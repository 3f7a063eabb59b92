import { expect, test } from 'vitest'
import { renderTails, type TailMeasurement, tailRatios } from '../../../bench/tails.ts'

const runOf = (p99Ms: number) => ({ p50Ms: 1, p99Ms, p999Ms: 20, requestsPerSecond: 1_000 })

function measured(echo: readonly number[], ours: readonly number[]): TailMeasurement {
  const servers = [
    { server: 'Fastify, echo', runs: echo.map(runOf) },
    { server: 'wasm-serve', runs: ours.map(runOf) },
  ]
  return { load: '100 connections', servers }
}

const render = (tail: TailMeasurement) => renderTails({ tails: [tail], slowRoute: [] })

test('a ratio of p99 compares runs of the same round', () => {
  expect(tailRatios(measured([10, 20, 10], [5, 20, 30]))).toEqual([0.5, 1, 3])
})

test('the median decides on a limit; it is said if its interval includes the limit', () => {
  const ten = Array<number>(10).fill(10)
  const row = (...figures: string[]) => figures.join(' | ')
  expect(render(measured(ten, [40, ...ten.slice(1)]))).toContain(row('1.00', '1.00 to 1.00', 'kept |'))
  expect(render(measured(ten, Array<number>(10).fill(13)))).toContain(
    row('1.30', '1.30 to 1.30', '**not kept** |'),
  )
  const mixed = [8, 8, 8, 8, 8, 14, 14, 14, 14, 14]
  expect(render(measured(ten, mixed))).toContain(row('1.10', '0.80 to 1.40', 'kept, within the interval |'))
})
