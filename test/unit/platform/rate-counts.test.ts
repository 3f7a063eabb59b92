import { expect, test } from 'vitest'
import { RateCounts } from '../../../src/platform/rate-counts.ts'

test('a window begins with the first request of a client, and ends after its length', () => {
  const counts = new RateCounts()
  expect(counts.count('a', 100, 0)).toEqual({ current: 1, ttl: 100 })
  expect(counts.count('b', 100, 10)).toEqual({ current: 1, ttl: 100 })
  expect(counts.count('a', 100, 40)).toEqual({ current: 2, ttl: 60 })
  expect(counts.count('a', 100, 100)).toEqual({ current: 1, ttl: 100 })
})

test('of many clients those that were counted longest ago are forgotten', () => {
  const counts = new RateCounts()
  for (let client = 0; client < 20_001; client++) {
    counts.count(`${client}`, 100, 0)
    counts.count('busy', 100, 0)
  }
  expect(counts.count('0', 100, 1).current).toBe(1)
  expect(counts.count('busy', 100, 1).current).toBe(20_002)
  expect(counts.count('20000', 100, 1).current).toBe(2)
})
