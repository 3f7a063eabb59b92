import { expect, test } from 'vitest'
import { RateCounts } from '../../../src/platform/rate-counts.ts'

test('a window begins with the first request of a client, and ends after its length', () => {
  const counts = new RateCounts()
  expect(counts.count('request', 'a', 100, 0)).toEqual({ current: 1, ttl: 100 })
  expect(counts.count('request', 'b', 100, 10)).toEqual({ current: 1, ttl: 100 })
  expect(counts.count('request', 'a', 100, 40)).toEqual({ current: 2, ttl: 60 })
  expect(counts.count('request', 'a', 100, 100)).toEqual({ current: 1, ttl: 100 })
})

test('of many clients those that were counted longest ago are forgotten', () => {
  const counts = new RateCounts()
  for (let client = 0; client < 20_001; client++) {
    counts.count('request', `${client}`, 100, 0)
    counts.count('request', 'busy', 100, 0)
  }
  expect(counts.count('request', '0', 100, 1).current).toBe(1)
  expect(counts.count('request', 'busy', 100, 1).current).toBe(20_002)
  expect(counts.count('request', '20000', 100, 1).current).toBe(2)
})

test('many clients of one kind do not make those of another forgotten', () => {
  const counts = new RateCounts()
  counts.count('key', 'a', 100, 0)
  for (let client = 0; client < 20_001; client++) counts.count('address', `${client}`, 100, 0)
  expect(counts.count('key', 'a', 100, 1).current).toBe(2)
  expect(counts.count('token', 'a', 100, 1).current).toBe(1)
})
