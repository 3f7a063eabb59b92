/**
 * How often a property is tried: `count` times, or FUZZ times as often. `npm run test:long` sets FUZZ.
 *
 * @param count - So few that all properties together take some seconds.
 */
export function runs(count: number): number {
  return Math.ceil(count * Number(process.env.FUZZ ?? 1))
}
