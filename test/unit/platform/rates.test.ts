import { expect, onTestFinished, test, vi } from 'vitest'
import { backoffMs } from '../../../src/platform/event-loop.ts'
import { EventRate } from '../../../src/platform/event-rate.ts'

test('a rate has room for a number of events at once, and for so many more each second', () => {
  let now = 5_000
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  onTestFinished(() => clock.mockRestore())
  const rate = new EventRate(3, 2)
  const count = (times: number) => Array.from({ length: times }, () => rate.count())
  expect(count(4)).toEqual([true, true, true, false])
  now += 1_500 // an event that is not within the rate counts, too
  expect(count(3)).toEqual([true, true, false])
  now += 60_000
  expect(count(4)).toEqual([true, true, true, false])
})

test.each([
  [1, 100],
  [2, 200],
  [5, 1_600],
  [7, 5_000],
  [100, 5_000],
])('after %i failures the pause is %i ms', (failures, ms) => {
  expect(backoffMs(failures, 100, 5_000)).toBe(ms)
})
