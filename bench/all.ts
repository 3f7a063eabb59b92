import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Bench } from './bench.ts'

/**
 * Runs benches one after the other, each in a process of its own: some look at the memory of theirs.
 *
 * @param args - What was given; the first word is `all`.
 * @throws when one of them failed, after the others have run.
 */
export function runAll(benches: readonly Bench[], args: readonly string[]): void {
  const flags = args.filter((arg) => arg !== 'all')
  const minutes = benches.reduce((sum, bench) => sum + bench.minutes, 0)
  if (!flags.includes('--quick')) console.error(`This takes about ${minutes} minutes; --quick is shorter.`)
  const failed: string[] = []
  for (const { name } of benches) {
    const begun = performance.now()
    console.error(`\n== ${name}`)
    const { status } = spawnSync(process.execPath, [...process.execArgv, MAIN, name, ...flags], {
      stdio: 'inherit',
    })
    if (status !== 0) failed.push(name)
    console.error(`== ${name} took ${Math.round((performance.now() - begun) / 1_000)} s`)
  }
  if (failed.length > 0) throw new Error(`failed: ${failed.join(', ')}`)
}

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))
