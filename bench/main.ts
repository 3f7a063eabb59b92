import { writeFileSync } from 'node:fs'
import { runAll } from './all.ts'
import type { Bench } from './bench.ts'
import { BENCHES } from './benches.ts'
import { watchMachine } from './machine.ts'
import { describeOrigin, renderOrigin } from './origin.ts'
import { keepResults } from './results.ts'
import { readCommandLine } from './settings.ts'
import { measuredBenches, updateTables } from './tables.ts'

/*
 * npm run bench -- [NAME... | all | guard | tables]
 *                  [--runs N] [--seconds S] [--warm-up S] [--connections 1,100] [--calls N] [--tool autocannon|wrk|hey]
 *                  [--quick] [--json FILE] [--update]
 *
 * Prints a table; `--update` puts it into bench/README.md too, with its pictures, and all that was measured into
 * bench/results; `--json` writes to another file. `tables` measures nothing: it rewrites the tables of bench/README.md,
 * from bench/results.
 */

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1)) // ends the servers

/** Words beside the names of benches. */
const OTHERS: readonly string[] = ['guard', 'tables']

const { names, flags, settings, json, update } = readCommandLine()
const chosen = names.includes('all') ? BENCHES : names.filter((name) => !OTHERS.includes(name)).map(findBench)
const [only, ...more] = chosen
if (names.includes('guard')) await runGuard()
if (names.includes('tables')) await updateTables(measuredBenches())
if (more.length > 0) await runAll(chosen, flags)
else if (only) await runOne(only)

async function runGuard(): Promise<void> {
  const { guard } = await import('./guard.ts')
  if (!(await guard(console.log))) process.exitCode = 1
}

function findBench(name: string): Bench {
  const found = BENCHES.find((bench) => bench.name === name)
  if (found) return found
  throw new Error(`name some of: all, guard, tables, ${BENCHES.map((bench) => bench.name).join(', ')}`)
}

async function runOne(bench: Bench): Promise<void> {
  const before = await watchMachine()
  const report = await bench.run(settings, console.error)
  const origin = describeOrigin(bench.name, report.args, Math.max(before, await watchMachine()))
  console.log(`${renderOrigin(origin)}\n\n${report.markdown}`)
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ ...origin, ...report.data }, null, 2)}\n`)
  if (update) await keepResults(origin, report)
}
