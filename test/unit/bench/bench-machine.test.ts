import { expect, test } from 'vitest'
import { disturbances, lookAtMachine, QUIET, worstOf } from '../../../bench/machine.ts'

test('a machine at its limits is quiet', () => {
  expect(disturbances(QUIET)).toEqual([])
})

test('each measure beyond its limit is named with its figure', () => {
  expect(disturbances({ ...QUIET, load: 0.234 })).toEqual(['load of other programs 23.4 %, at most 10.0 %'])
  expect(disturbances({ ...QUIET, steal: 0.05 })).toEqual(['steal time 5.0 %, at most 2.0 %'])
  expect(disturbances({ ...QUIET, spread: 1.9 })).toEqual(['spread of a fixed loop 1.90, at most 1.25'])
  expect(disturbances({ load: 1, steal: 1, spread: 3 })).toHaveLength(3)
})

test('results from before a figure was measured are judged by the others', () => {
  expect(disturbances({ load: 0.05 })).toEqual([])
  expect(disturbances({ load: 0.5 })).toHaveLength(1)
})

test('of several looks, the worst of each figure counts', () => {
  const looks = [
    { load: 0.1, steal: 0, spread: 1.4 },
    { load: 0.2, steal: 0.1 },
  ]
  expect(worstOf(looks)).toEqual({ load: 0.2, steal: 0.1, spread: 1.4 })
})

test.skipIf(process.platform !== 'linux')('a look has all three figures', async () => {
  const { load, steal, spread } = await lookAtMachine()
  expect([load, steal].every((share) => share !== undefined && share >= 0 && share <= 1)).toBe(true)
  expect(spread).toBeGreaterThanOrEqual(1)
})
