import { mkdirSync, writeFileSync } from 'node:fs'
import type { Report } from './bench.ts'
import { disturbances } from './machine.ts'
import { majorOf, type Origin } from './origin.ts'
import { folderOf, isWorthKeeping, updateTables } from './tables.ts'

/**
 * Writes the results for readers: JSON and charts to the folder of the Node.js version in `bench/results`, tables and
 * charts to the READMEs.
 *
 * @throws errors of {@link refuseBusy}.
 */
export async function keepResults(origin: Origin, { data, plots = {} }: Report): Promise<void> {
  refuseBusy(origin)
  const folder = folderOf(majorOf(origin))
  mkdirSync(folder, { recursive: true })
  const json = JSON.stringify({ ...origin, ...data }, null, 1)
  writeFileSync(new URL(`${origin.bench}.json`, folder), `${json}\n`)
  for (const [name, svg] of Object.entries(plots)) writeFileSync(new URL(`${name}.svg`, folder), svg)
  await updateTables([origin.bench])
}

/** @throws Error if the machine was not quiet, unless the bench counts more than it times. */
export function refuseBusy(origin: Pick<Origin, 'bench' | 'quietness'>): void {
  if (isWorthKeeping(origin)) return
  const problems = disturbances(origin.quietness).join('; ')
  throw new Error(`${origin.bench}: not kept: the machine was not quiet: ${problems}`)
}
