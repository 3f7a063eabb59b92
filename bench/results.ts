import { mkdirSync, writeFileSync } from 'node:fs'
import type { Report } from './bench.ts'
import { type Origin, renderNumber } from './origin.ts'
import { isWorthKeeping, updateTables } from './tables.ts'

const FOLDER = new URL('results/', import.meta.url)

/**
 * Writes the results for readers: JSON and charts to `bench/results`, tables and charts to the READMEs.
 *
 * @throws Error if the machine was busy, unless the bench counts more than it times.
 */
export async function keepResults(origin: Origin, { data, plots = {} }: Report): Promise<void> {
  if (!isWorthKeeping(origin)) {
    const share = renderNumber(origin.busy * 100, 0)
    throw new Error(`not kept: other programs used ${share} % of the machine; measure again when it is idle`)
  }
  mkdirSync(FOLDER, { recursive: true })
  const json = JSON.stringify({ ...origin, ...data }, null, 1)
  writeFileSync(new URL(`${origin.bench}.json`, FOLDER), `${json}\n`)
  for (const [name, svg] of Object.entries(plots)) writeFileSync(new URL(`${name}.svg`, FOLDER), svg)

  await updateTables([origin.bench])
}
