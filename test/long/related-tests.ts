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

/** The tests that import a source, directly or through others: the nearest first. */
export function relatedTests(importers: Importers, source: string): string[] {
  const reached = new Set([source])
  for (const file of reached) for (const importer of importers.get(file) ?? []) reached.add(importer)
  return [...reached].filter((file) => /^test\/(unit|integration)\/.*\.test\.ts$/.test(file))
}
