import { readFileSync } from 'node:fs'
import { join } from 'node:path/posix'

/** The modules that threads are started from: `vitest related` does not see that tests run them. */
const THREADS = [
  ...['engine/workers/kernel-thread.ts', 'engine/workers/sdk-thread.ts'],
  ...['engine/watchdog-thread.ts', 'plugin/load-thread.ts'],
]
const THREADS_FROM = 'src/platform/packages.ts'

/** Who imports what, in sources and tests. Paths are those that were given. */
export type Importers = ReadonlyMap<string, readonly string[]>

/** @param files - Paths from the root of the package, with `/`. */
export function findImporters(root: string, files: readonly string[]): Importers {
  const importers = new Map<string, string[]>()
  for (const file of files) {
    // Types are counted, too: that only finds more tests.
    const found = readFileSync(join(root, file), 'utf8').matchAll(/'(\.\.?\/[^'\n]+\.ts)'/g)
    const imported = Array.from(found, ([, path = '']) => join(file, '..', path))
    if (file === THREADS_FROM) imported.push(...THREADS.map((thread) => `src/${thread}`))
    for (const path of imported) importers.set(path, [...(importers.get(path) ?? []), file])
  }
  return importers
}

/** The tests that import a source, directly or through others, with the length of the shortest way. */
export function relatedTests(importers: Importers, source: string): Map<string, number> {
  const distances = new Map([[source, 0]])
  for (const [file, distance] of distances)
    for (const importer of importers.get(file) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1)
  return new Map(
    [...distances].filter(([file]) => /^test\/(unit|integration|system)\/.*\.test\.ts$/.test(file)),
  )
}
