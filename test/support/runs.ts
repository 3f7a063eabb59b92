import fc from 'fast-check'

/**
 * How often a property is tried: `count` times, or FUZZ times as often. `npm run test:long` sets FUZZ.
 *
 * @param count - So few that all properties together take some seconds.
 */
export function runs(count: number): number {
  return Math.ceil(count * Number(process.env.FUZZ ?? 1))
}

/**
 * Tries a property with inputs that are the same in each run, has `expectReached` say whether they reach what they
 * shall, and tries it with random ones: a bound on what random inputs reach would fail by chance.
 */
export function assertReaching<Inputs>(
  property: fc.IProperty<Inputs>,
  count: number,
  expectReached: () => void,
): void {
  fc.assert(property, { numRuns: count, seed: 1 })
  expectReached()
  fc.assert(property, { numRuns: runs(count) })
}
