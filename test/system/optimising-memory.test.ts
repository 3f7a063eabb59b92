import { expect, test } from 'vitest'
import { CASES, measureApart, moduleOf, OPTIMISED } from '../../scripts/compile-cost.mjs.mts'
import { readModule } from '../../src/module/module.ts'

/* Functions at the limits, optimised by V8 in a process of their own. */

const MEBIBYTES = 512

test.each([
  'optimisingBytes: calls',
  'optimisingBytes: joined conditions',
  'optimisingBytes: values in each branch',
  'optimisingBytes: clauses that catch',
])('the compiler takes no more than 512 MiB for a function at its limit (%s)', (name) => {
  const item = CASES[name]
  if (!item) throw new Error('no such case')
  expect(() => readModule(moduleOf(item()), {}, name)).not.toThrow()
  const [, mebibytes] = measureApart(name, OPTIMISED)
  expect(mebibytes).toBeLessThan(MEBIBYTES)
  expect(mebibytes).toBeGreaterThan(5) // it was compiled
})
