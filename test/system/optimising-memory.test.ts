import { expect, test } from 'vitest'
import { largestOf, optimise } from '../../scripts/compile-measure.ts'
import { randomBy, randomShape, SHAPES } from '../../scripts/compile-shapes.ts'

/* The largest functions that the limits accept, optimised by V8 in a process of their own. */

const known = Object.entries(SHAPES).filter(([name]) => !name.startsWith('many locals'))
const random = Array.from({ length: 10 }, (_, seed) => {
  const { name, shape } = randomShape(randomBy(seed + 1))
  return [`random: ${name}`, shape] as const
})

test.each([
  ...known,
  ...random,
])('the compiler takes no more than 512 MiB for a function of %s', (_, shape) => {
  const { mebibytes } = optimise(largestOf(shape).bytes)
  expect(mebibytes).toBeLessThan(512) // infinite if the process ends or takes a minute
})
