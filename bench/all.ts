import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Bench } from './bench.ts'

/**
 * Runs benches one after another, each in its own process: some measure the memory of theirs.
 *
 * @param flags - Flags for each of them.
 * @throws if one of them failed, after the others have run.
 */
export async function runAll(benches: readonly Bench[], flags: readonly string[]): Promise<void> {
  const minutes = benches.reduce((sum, bench) => sum + bench.minutes, 0)
  if (!flags.includes('--quick')) console.error(`This takes about ${minutes} minutes; --quick is shorter.`)
  const failed: string[] = []
  for (const { name, missing } of benches) {
    const lack = missing?.()
    if (lack !== undefined) {
      console.error(`\n== ${name}: skipped, it needs ${lack}`)
      continue
    }
    const begun = performance.now()
    console.error(`\n== ${name}`)
    const child = spawn(process.execPath, [...process.execArgv, MAIN, name, ...flags], { stdio: 'inherit' })
    const [status] = await once(child, 'close')
    if (status !== 0) failed.push(name)
    console.error(`== ${name} took ${Math.round((performance.now() - begun) / 1_000)} s`)
  }
  if (failed.length > 0) throw new Error(`failed: ${failed.join(', ')}`)
}

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))
