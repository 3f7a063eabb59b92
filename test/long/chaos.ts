import { parseArgs } from 'node:util'
import { runScenario, type ScenarioOptions, type ScenarioResult } from '../support/chaos-run/run.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/chaos.ts [--seed N] [--minutes N] [--only PART_OF_NAME]
 *
 * Servers with serving processes under load, while processes are killed and stopped, stores fail, configurations change
 * and hostile modules are called. Writes the results to docs/contribute/long-tests.md, unless `--only` is given, and exits
 * with 1 if an answer is wrong, lost without a reason or missing, or if something is left. Needs the built files,
 * redis-server, and prlimit; root, to mount a file system that becomes full.
 */

const MINUTES = 30

/** How long clients run without faults before resources are counted. */
const WARM_UP_SECONDS = 15

/** What serves, at the same time. */
const SCENARIOS: readonly Pick<ScenarioOptions, 'name' | 'listeners'>[] = [
  { name: 'a server with TLS and HTTP/2', listeners: ['tls'] },
  { name: 'a fleet, on a port and a Unix socket', listeners: ['http', 'unix'] },
]

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
    minutes: { type: 'string', default: String(MINUTES) },
    only: { type: 'string' },
  },
})
const { only } = values
const [seed, minutes] = [Number(values.seed), Number(values.minutes)]
const scenarios = SCENARIOS.filter(({ name }) => only === undefined || name.includes(only))
if (scenarios.length === 0) throw new Error(`there is no scenario ${only}`)
console.log(`seed ${seed}, ${minutes} minutes for ${scenarios.map(({ name }) => name).join(', ')}`)

for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1))
const runs = scenarios.map((scenario, index) => {
  const run = runScenario({
    ...scenario,
    seed: seed + index,
    seconds: minutes * 60,
    warmUpSeconds: WARM_UP_SECONDS,
    progress: (line) => console.log(`${new Date().toISOString().slice(11, 19)} ${line}`),
  })
  return run.catch((error) => {
    console.error(`${scenario.name}: ${error?.stack ?? error}`)
  })
})
const results = (await Promise.all(runs)).filter((result) => result !== undefined)
for (const { problems, messages } of results) {
  for (const problem of problems.slice(0, 50)) console.error(problem)
  for (const [text, count] of messages) console.log(`${count} times in the log: ${text}`)
}
const section = render()
console.log(section)
if (only === undefined && results.length === scenarios.length) keepSection('chaos', section)
const isFailed = results.length < scenarios.length || results.some(({ problems }) => problems.length > 0)
process.exit(isFailed ? 1 : 0) // a run that was broken off may have left clients

function render(): string {
  const table = (head: string, rows: readonly (readonly [string, ...(string | number)[]])[]) => {
    const names = results.map(({ name }) => name)
    const lines = rows.map(([what, ...figures]) => `| ${[what, ...figures.map(renderFigure)].join(' | ')} |`)
    return [`| ${[head, ...names].join(' | ')} |`, `| --- |${' --: |'.repeat(names.length)}`, ...lines].join(
      '\n',
    )
  }
  const each = (of: (result: ScenarioResult) => string | number) => results.map(of)
  const kinds = namesOf(results.map(({ ends }) => ends))
  const rows = kinds.flatMap((kind) =>
    namesOf(results.flatMap(({ ends }) => ends.get(kind) ?? [])).map(
      (end) => [`${kind}: ${end}`, ...each(({ ends }) => ends.get(kind)?.get(end) ?? 0)] as const,
    ),
  )
  const faults = namesOf(results.map(({ faults }) => faults))
  return [
    '## Chaos',
    `Servers with two serving processes each serve all kinds of routes, with a store in Redis behind a proxy, while faults happen that the seed draws, up to three at a time
(\`npx tsx test/long/chaos.ts\`). Each request has an id, which its answer must contain. *Answered*: with its own id. *Lost*: its connection ended without an answer; each time the process that had
it was killed, held by a guest, or had no descriptors left, or drained and closed a connection of HTTP/1.1 while its next request was on its way, or one that had sent nothing for a second. *Moved*: the server closed the connection properly and asked to open another one. Other ends are documented
[codes](errors.md). What the store has acknowledged is read at the end. Then all must serve the same configuration as before, and hold no more processes, threads, descriptors,
sockets and files than before, after the same requests without faults.`,
    `${renderOrigin()}. Seed ${seed}, ${minutes} minutes.`,
    table('', [
      ['requests and changes', ...each(({ requests }) => requests)],
      ['faults', ...each(({ faults }) => [...faults.values()].reduce((sum, count) => sum + count, 0))],
      ['serving processes lost', ...each(({ lostProcesses }) => lostProcesses)],
      ['requests lost with them', ...each(({ lost }) => lost)],
      ['keys in the store, all of them read', ...each(({ keys }) => keys)],
      ['ready again after the last fault, in ms', ...each(({ recoveredMs }) => Math.round(recoveredMs))],
      ['wrong, crossed, lost without a reason, or left over', ...each(({ problems }) => problems.length)],
    ]),
    table(
      'faults',
      faults.map((fault) => [fault, ...each(({ faults }) => faults.get(fault) ?? 0)]),
    ),
    table('ends', rows),
    ...results.map(({ name, held }) =>
      [
        `| held: ${name} | before | after |`,
        '| --- | --: | --: |',
        ...held.map(({ what, before, after }) => `| ${what} | ${before} | ${after} |`),
      ].join('\n'),
    ),
  ].join('\n\n')
}

function namesOf(maps: readonly ReadonlyMap<string, unknown>[]): string[] {
  return [...new Set(maps.flatMap((each) => [...each.keys()]))].sort()
}

function renderFigure(figure: string | number): string {
  return typeof figure === 'number' ? figure.toLocaleString('en-US') : figure
}
