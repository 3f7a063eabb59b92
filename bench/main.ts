import { writeFileSync } from 'node:fs'
import { runAll } from './all.ts'
import { BENCHES } from './benches.ts'
import { watchMachine } from './machine.ts'
import { describeOrigin, renderOrigin } from './origin.ts'
import { keepResults } from './results.ts'
import { readCommandLine } from './settings.ts'

/*
 * npm run bench -- [NAME | all | guard]
 *                  [--runs N] [--seconds S] [--warm-up S] [--connections 1,100] [--calls N] [--tool autocannon|wrk|hey]
 *                  [--quick] [--json FILE] [--update]
 *
 * Prints a table; `--update` puts it into bench/README.md too, with its pictures, and all that was measured into
 * bench/results; `--json` writes that to another file.
 */

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1)) // ends the servers

const { name, settings, json, update } = readCommandLine()
if (name === 'all') runAll(BENCHES, process.argv.slice(2))
else if (name === 'guard') await runGuard()
else await runOne()

async function runGuard(): Promise<void> {
  const { guard } = await import('./guard.ts')
  if (!(await guard(console.log))) process.exitCode = 1
}

async function runOne(): Promise<void> {
  const bench = BENCHES.find((bench) => bench.name === name)
  if (!bench) throw new Error(`name one of: all, guard, ${BENCHES.map((bench) => bench.name).join(', ')}`)
  const before = await watchMachine()
  const report = await bench.run(settings, console.error)
  const origin = describeOrigin(name, report.args, Math.max(before, await watchMachine()))
  console.log(`${renderOrigin(origin)}\n\n${report.markdown}`)
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ ...origin, ...report.data }, null, 2)}\n`)
  if (update) keepResults(origin, report)
}
