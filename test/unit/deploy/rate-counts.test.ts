import { expect, test } from 'vitest'
import { countTogether, RateCounts, type RateQuestion } from '../../../src/deploy/processes/rate-counts.ts'

test('a window begins with the first request of a client, and ends after its length', () => {
  const counts = new RateCounts()
  expect(counts.count(['a', 100], 0)).toEqual({ current: 1, ttl: 100 })
  expect(counts.count(['b', 100], 10)).toEqual({ current: 1, ttl: 100 })
  expect(counts.count(['a', 100], 40)).toEqual({ current: 2, ttl: 60 })
  expect(counts.count(['a', 100], 100)).toEqual({ current: 1, ttl: 100 })
})

test('of many clients those that were counted longest ago are forgotten', () => {
  const counts = new RateCounts()
  for (let client = 0; client < 20_001; client++) {
    counts.count([`${client}`, 100], 0)
    counts.count(['busy', 100], 0)
  }
  expect(counts.count(['0', 100], 1).current).toBe(1)
  expect(counts.count(['busy', 100], 1).current).toBe(20_002)
  expect(counts.count(['20000', 100], 1).current).toBe(2)
})

test('requests of one turn are counted by one message, each for its client', async () => {
  const counts = new RateCounts()
  const asked: (readonly RateQuestion[])[] = []
  const counter = countTogether(async (questions) => {
    asked.push(questions)
    return questions.map((question) => counts.count(question, 0))
  })
  const first = await Promise.all(['a', 'b', 'a'].map((client) => counter.count(client, 100)))
  expect(first.map(({ current }) => current)).toEqual([1, 1, 2])
  expect((await counter.count('b', 100)).current).toBe(2)
  expect(asked.map(({ length }) => length)).toEqual([3, 1])
})

test('what fails to be counted fails each request', async () => {
  const counter = countTogether(() => Promise.reject(new Error('gone')))
  const all = await Promise.allSettled([counter.count('a', 1), counter.count('b', 1)])
  expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
})
