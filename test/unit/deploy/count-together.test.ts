import { expect, test } from 'vitest'
import { countTogether, type RateQuestion } from '../../../src/deploy/processes/count-together.ts'
import { RateCounts } from '../../../src/platform/rate-counts.ts'

test('requests of one turn are counted by one message, each for its client', async () => {
  const counts = new RateCounts()
  const asked: (readonly RateQuestion[])[] = []
  const counter = countTogether(async (questions) => {
    asked.push(questions)
    return questions.map((question) => counts.count(...question, 0))
  })
  const first = await Promise.all(['a', 'b', 'a'].map((client) => counter.count('request', client, 100)))
  expect(first.map(({ current }) => current)).toEqual([1, 1, 2])
  expect((await counter.count('request', 'b', 100)).current).toBe(2)
  expect(asked.map(({ length }) => length)).toEqual([3, 1])
})

test('what fails to be counted fails each request', async () => {
  const counter = countTogether(() => Promise.reject(new Error('gone')))
  const all = await Promise.allSettled([counter.count('request', 'a', 1), counter.count('key', 'b', 1)])
  expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
})
