import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Effort, measure } from './measure.ts'
import { describeOrigin } from './origin.ts'
import { updateReadme } from './readme.ts'
import { renderSet } from './report.ts'
import type { ScenarioSet } from './scenario.ts'
import { article } from './sets/article.ts'
import { http } from './sets/http.ts'

/*
 * npm run bench -- [article | http | engines | calls | profile | soak]
 *                  [--runs N] [--seconds S] [--warm-up S] [--connections 1,100] [--calls N] [--json FILE] [--update]
 *
 * Prints a table; `--update` puts it into bench/README.md too, `--json` writes all that was measured.
 */

interface Result {
  readonly markdown: string
  /** Everything that is known. */
  readonly data: object
}

const SETS: readonly ScenarioSet[] = [article, http]

const BENCHES: Readonly<Record<string, () => Promise<Result>>> = {
  ...Object.fromEntries(SETS.map((set) => [set.name, () => benchSet(set)])),
  engines: benchEngines,
  calls: benchCalls,
  profile: benchProfile,
  soak: benchSoak,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string' },
    seconds: { type: 'string', default: '5' },
    'warm-up': { type: 'string', default: '3' },
    connections: { type: 'string' },
    calls: { type: 'string', default: '1000000' },
    json: { type: 'string' },
    update: { type: 'boolean', default: false },
  },
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1)) // ends the servers

const [name = 'article', ...more] = positionals
const bench = BENCHES[name]
if (!bench || more.length > 0) throw new Error(`name one of: ${Object.keys(BENCHES).join(', ')}`)
const { markdown, data } = await bench()
console.log(markdown)
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(data, null, 2)}\n`)
if (values.update) updateReadme(name, markdown)

async function benchSet(set: ScenarioSet): Promise<Result> {
  const connections =
    values.connections?.split(',').map((text) => positive('connections', text)) ?? set.connections
  const effort: Effort = { ...effortOr(set.runs), connections }
  const origin = describeOrigin(set.name, `${describeEffort(effort)} --connections ${connections}`)
  const measurements = await measure(set.scenarios, effort, console.error)
  return { markdown: renderSet(origin, measurements, set), data: { ...origin, measurements } }
}

async function benchEngines(): Promise<Result> {
  const { measureEngines, renderEngines } = await import('./engines.ts')
  const effort = effortOr(7)
  const origin = describeOrigin('engines', describeEffort(effort))
  const measurements = await measureEngines(effort, console.error)
  return { markdown: renderEngines(origin, measurements), data: { ...origin, ...measurements } }
}

function effortOr(runs: number): Omit<Effort, 'connections'> {
  const seconds = positive('seconds', values.seconds)
  if (seconds < 3) console.error('Runs of less than 3 seconds: CPU time is told in ticks of 10 ms.')
  return { runs: runsOr(runs), seconds, warmUpSeconds: positive('warm-up', values['warm-up']) }
}

function describeEffort({ runs, seconds, warmUpSeconds }: Omit<Effort, 'connections'>): string {
  return ` --runs ${runs} --seconds ${seconds} --warm-up ${warmUpSeconds}`
}

async function benchCalls(): Promise<Result> {
  const { measureCalls, renderCalls } = await import('./calls.ts')
  const runs = runsOr(21)
  const origin = describeOrigin('calls', ` --runs ${runs}`)
  const measurements = await measureCalls(runs, console.error)
  return { markdown: renderCalls(origin, measurements), data: { ...origin, ...measurements } }
}

async function benchProfile(): Promise<Result> {
  const { measureProfile, renderProfile } = await import('./profile.ts')
  const seconds = positive('seconds', values.seconds)
  const origin = describeOrigin('profile', ` --seconds ${seconds}`)
  const lines = await measureProfile(seconds)
  return { markdown: renderProfile(origin, lines), data: { ...origin, lines } }
}

async function benchSoak(): Promise<Result> {
  const { measureSoak, renderSoak } = await import('./soak.ts')
  const calls = positive('calls', values.calls)
  const origin = describeOrigin('soak', ` --calls ${calls}`)
  const measured = await measureSoak(calls, console.error)
  return { markdown: renderSoak(origin, measured), data: { ...origin, measured } }
}

function runsOr(usual: number): number {
  return values.runs === undefined ? usual : positive('runs', values.runs)
}

function positive(option: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new Error(`--${option}: must be a whole number above 0, not "${text}"`)
}
