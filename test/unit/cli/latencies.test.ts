import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Latencies } from '../../../src/cli/bench/load.ts'

const some = fc.array(fc.double({ min: 0.001, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 300 })

function latenciesOf(values: readonly number[]): Latencies {
  const latencies = new Latencies()
  for (const value of values) latencies.record(value)
  return latencies
}

describe('latencies', () => {
  test('a percentile is that of all values, to 1%', () => {
    fc.assert(
      fc.property(some, fc.constantFrom(1, 50, 90, 99, 99.9, 100), (values, percent) => {
        const sorted = values.toSorted((a, b) => a - b)
        const exact = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN
        const found = latenciesOf(values).percentile(percent)
        expect(Math.abs(found - exact) / exact).toBeLessThan(0.0101)
      }),
    )
  })

  test('bars hold every value once, in order, without gaps', () => {
    fc.assert(
      fc.property(some, fc.integer({ min: 1, max: 20 }), (values, rows) => {
        const latencies = latenciesOf(values)
        const bars = latencies.bars(rows)
        expect(bars.length).toBeLessThanOrEqual(rows)
        expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(values.length)
        for (const [index, bar] of bars.entries()) {
          expect(bar.fromMs).toBeLessThan(bar.toMs)
          if (index > 0) expect(bar.fromMs).toBe(bars[index - 1]?.toMs)
        }
      }),
    )
  })

  test('none are zero, and none have no bars', () => {
    const none = new Latencies()
    expect([none.percentile(50), none.meanMs, none.bars(10)]).toEqual([0, 0, []])
  })

  test('what is off the scale is counted', () => {
    const latencies = latenciesOf([0, 1e12])
    expect([latencies.count, latencies.percentile(100) > 1e6]).toEqual([2, true])
    expect(latencies.bars(5).reduce((sum, { count }) => sum + count, 0)).toBe(2)
  })
})
