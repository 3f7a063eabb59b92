import { writeFileSync } from 'node:fs'
import { runAll } from './all.ts'
import type { Bench, Report } from './bench.ts'
import { BENCHES } from './benches.ts'
import {
  disturbances,
  lookAtMachine,
  type Quietness,
  waitForQuiet,
  watchMachine,
  worstOf,
} from './machine.ts'
import { describeOrigin, isBusy, type Origin, renderOrigin } from './origin.ts'
import { keepResults, refuseBusy } from './results.ts'
import { readCommandLine } from './settings.ts'
import { measuredBenches, updateTables } from './tables.ts'

/*
 * npm run bench -- [NAME... | all | guard | tables]
 *                  [--runs N] [--seconds S] [--warm-up S] [--connections 1,100] [--calls N] [--seed N] [--tool autocannon|wrk|hey]
 *                  [--quick] [--json FILE] [--update] [--max-wait S]
 *
 * Prints a table; `--update` waits for a quiet machine, and puts the table into its page of bench/results too, with its pictures,
 * and all that was measured into bench/results. `--json` writes to another file. `tables` measures nothing: it rewrites
 * the tables of all pages.
 */

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1)) // ends the servers

/** Words beside the names of benches. */
const OTHERS: readonly string[] = ['guard', 'tables']

const { names, flags, settings, json, update, maxWaitSeconds } = readCommandLine()
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
  const { origin, report } = update ? await runQuietly(bench) : await runAfter(bench, await lookAtMachine())
  console.log(`${renderOrigin(origin)}\n\n${report.markdown}`)
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ ...origin, ...report.data }, null, 2)}\n`)
  if (update) await keepResults(origin, report)
}

interface Result {
  readonly origin: Origin
  readonly report: Report
}

/** Waits for a quiet machine, and measures again if it was disturbed while the bench ran. */
async function runQuietly(bench: Bench): Promise<Result> {
  const first = await runAfter(bench, await waitForKeeping(bench))
  if (!isBusy(first.origin)) return first
  console.error(`${bench.name}: measures again: ${disturbances(first.origin.quietness).join('; ')}`)
  return runAfter(bench, await waitForKeeping(bench))
}

/** @throws if the machine does not become quiet, unless the bench counts more than it times. */
async function waitForKeeping(bench: Bench): Promise<Quietness> {
  const quietness = await waitForQuiet(maxWaitSeconds, console.error)
  refuseBusy({ bench: bench.name, quietness })
  return quietness
}

async function runAfter(bench: Bench, before: Quietness): Promise<Result> {
  const watched = watchMachine()
  const report = await bench.run(settings, console.error)
  const after = await lookAtMachine() // the last servers end meanwhile
  const quietness = worstOf([before, watched(), after])
  return { origin: describeOrigin(bench.name, report.args, quietness), report }
}
