import { expect, test } from 'vitest'
import { median, medianInterval } from '../../../bench/statistics.ts'

const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)

test('the interval of a median is that of the binomial distribution', () => {
  // Tables of the sign test: ranks for 95 %.
  expect(medianInterval(upTo(6))).toEqual({ least: 1, most: 6 })
  expect(medianInterval(upTo(10))).toEqual({ least: 2, most: 9 })
  expect(medianInterval(upTo(20))).toEqual({ least: 6, most: 15 })
  expect(medianInterval(upTo(50))).toEqual({ least: 18, most: 33 })
})

test('the interval of a few values has all of them', () => {
  expect(medianInterval([3, 1, 2])).toEqual({ least: 1, most: 3 })
  expect(medianInterval([7])).toEqual({ least: 7, most: 7 })
})

test('the interval contains the median', () => {
  const values = [5, 3, 9, 1, 12, 4, 4, 8, 30, 2, 6]
  const { least, most } = medianInterval(values)
  expect([least <= median(values), median(values) <= most]).toEqual([true, true])
})
