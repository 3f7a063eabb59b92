import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Effort, measure } from './measure.ts'
import { updateReadme } from './readme.ts'
import { makeReport, renderReport } from './report.ts'
import type { ScenarioSet } from './scenario.ts'
import { article } from './sets/article.ts'

/*
 * npm run bench -- [SET] [--runs N] [--seconds S] [--connections 1,100] [--json FILE] [--update]
 *
 * Prints the table of a set of scenarios; `--update` puts it into bench/README.md too.
 */

const SETS: readonly ScenarioSet[] = [article]

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string' },
    json: { type: 'string' },
    update: { type: 'boolean', default: false },
  },
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1)) // ends the servers

const set = chooseSet(positionals)
const effort: Effort = {
  runs: positive('runs', values.runs),
  seconds: positive('seconds', values.seconds),
  connections: values.connections?.split(',').map((text) => positive('connections', text)) ?? set.connections,
}
const command = `npm run bench -- ${set.name} --runs ${effort.runs} --seconds ${effort.seconds} --connections ${effort.connections}`
if (effort.seconds < 3) console.error('Runs of less than 3 seconds: CPU time is told in ticks of 10 ms.')

const report = makeReport(set.name, command, await measure(set, effort, console.error))
const markdown = renderReport(report, set)
console.log(markdown)
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`)
if (values.update) updateReadme(set.name, markdown)

function chooseSet([name = 'article', ...more]: readonly string[]): ScenarioSet {
  const set = SETS.find((each) => each.name === name)
  if (set && more.length === 0) return set
  throw new Error(`name one set, of: ${SETS.map((each) => each.name).join(', ')}`)
}

function positive(option: string, text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new Error(`--${option}: must be a whole number above 0, not "${text}"`)
}
