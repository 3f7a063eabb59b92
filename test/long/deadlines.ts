import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { assembleGuest } from '../../bench/guest.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { SAME_USER } from '../support/chaos.ts'
import { forkServer, type ServerProcess } from '../support/fork-server.ts'
import { openParts } from '../support/stream-storm.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/deadlines.ts [--count N]
 *
 * Guests that never return meet their deadlines, one after another, while other clients call another route. Writes the results to
 * docs/contribute/long-tests.md, and exits with 1 if an answer is wrong or late, or if something is left. Needs the built files.
 */

const COUNT = 10_000

/** Deadlines before the resources are compared. */
const WARM_UP = 100

const DEADLINE_MS = 10

/** Clients that call the other route. */
const CLIENTS = 20

/** How much later than the deadline of a guest others are answered. */
const MAX_LATE_MS = 100

const MIB = 2 ** 20
const MAX_GROWTH = 8 * MIB

const ENGINES: readonly (readonly [name: string, route: Partial<RouteOptions>])[] = [
  ['inline', { engine: 'inline' }],
  ['inline, fresh', { engine: 'inline', isolation: 'fresh' }],
  ['workers', { workers: 1 }],
  ['subprocess', { engine: 'subprocess' }],
]

interface Results {
  readonly engine: string
  /** Answers of the guests that never return, by status. */
  readonly statuses: ReadonlyMap<number, number>
  /** Calls of the other route. */
  readonly others: number
  readonly wrong: number
  readonly p99Ms: number
  readonly maxMs: number
  /** What the server has at the beginning and at the end. */
  readonly left: readonly [before: Left, after: Left]
}

interface Left {
  readonly threads: number
  readonly files: number
  /** Ids of the child processes. */
  readonly processes: string
  readonly heap: number
  readonly buffers: number
}

const { values } = parseArgs({ options: { count: { type: 'string', default: String(COUNT) } } })
const count = Number(values.count)
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-deadlines-'))
for (const name of ['moody', 'echo'])
  writeFileSync(join(folder, `${name}.wasm`), await assembleGuest(name, '../test/guests'))
const results: Results[] = []
for (const [engine, route] of ENGINES) results.push(await run(engine, route))
rmSync(folder, { recursive: true })
const section = render()
console.log(section)
if (values.count === String(COUNT)) keepSection('deadlines', section)
if (!results.every(isKept)) process.exitCode = 1

async function run(engine: string, route: Partial<RouteOptions>): Promise<Results> {
  const limits = { timeoutMs: DEADLINE_MS, spareWorkers: 0 }
  const { child, started } = forkServer({
    subprocessUser: SAME_USER,
    routes: [
      { url: '/loop', plugin: join(folder, 'moody.wasm'), ...limits, ...route },
      { url: '/echo', plugin: join(folder, 'echo.wasm') },
    ],
  })
  try {
    const server = await started
    await meetDeadlines(server, WARM_UP)
    const before = await leftOf(server)
    const met = await meetDeadlines(server, count)
    return { engine, ...met, left: [before, await leftOf(server)] }
  } finally {
    child.kill('SIGKILL')
  }
}

async function meetDeadlines({ url }: ServerProcess, wanted: number) {
  const agent = new Agent({ keepAlive: true })
  const statuses = new Map<number, number>()
  const times: number[] = []
  let [wrong, isOver] = [0, false]
  const others = Array.from({ length: CLIENTS }, async (_, client) => {
    for (let n = 0; !isOver; n++) {
      const begun = performance.now()
      const { status, body } = await ask(agent, `${url}/echo`, `${client}-${n}`)
      times.push(performance.now() - begun)
      if (status !== 200 || body !== `${client}-${n}`) wrong++
    }
  })
  for (let n = 0; n < wanted; n++) {
    const { status } = await ask(agent, `${url}/loop`, 'L')
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    const { body } = await ask(agent, `${url}/loop`, `well ${n}`)
    if (body !== `well ${n}`) wrong++
  }
  isOver = true
  await Promise.all(others)
  agent.destroy()
  times.sort((a, b) => a - b)
  const p99Ms = times[Math.floor(times.length * 0.99)] ?? 0
  return { statuses, others: times.length, wrong, p99Ms, maxMs: times.at(-1) ?? 0 }
}

async function ask(agent: Agent, url: string, body: string) {
  const sent = request(url, { method: 'POST', agent, headers: { 'content-length': body.length } })
  const answered = new Promise<{ status: number; body: string }>((resolve, reject) => {
    sent.on('error', reject)
    sent.on('response', async (answer) => {
      resolve({ status: answer.statusCode ?? 0, body: await text(answer) })
    })
  })
  sent.end(body)
  return answered
}

async function leftOf(server: ServerProcess): Promise<Left> {
  const { memory } = await server.measure()
  const { pid } = server.child
  const children = readdirSync(`/proc/${pid}/task`).map((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1'),
  )
  const processes = children.join('').trim()
  return { ...openParts(server), processes, heap: memory.heapUsed, buffers: memory.arrayBuffers }
}

function isKept({ statuses, wrong, p99Ms, left: [before, after] }: Results): boolean {
  return (
    statuses.get(504) === count &&
    wrong === 0 &&
    p99Ms <= DEADLINE_MS + MAX_LATE_MS &&
    after.threads <= before.threads &&
    after.files <= before.files &&
    after.processes === before.processes &&
    after.heap - before.heap <= MAX_GROWTH &&
    after.buffers - before.buffers <= MAX_GROWTH
  )
}

function render(): string {
  const rows = results.map((result) => {
    const { engine, statuses, others, wrong, p99Ms, maxMs, left } = result
    const [before, after] = left
    const isSame = before.processes === after.processes
    const grown = (name: 'heap' | 'buffers') => ((after[name] - before[name]) / MIB).toFixed(1)
    return [
      engine,
      statuses.get(504) ?? 0,
      others,
      wrong,
      `${p99Ms.toFixed(0)} / ${maxMs.toFixed(0)}`,
      after.threads - before.threads,
      after.files - before.files,
      isSame ? 'the same' : '**others**',
      `${grown('heap')} / ${grown('buffers')}`,
      isKept(result) ? 'as expected' : '**not so**',
    ]
  })
  return `## Deadlines

Guests that never return are called ${count} times, one after another, with a deadline of ${DEADLINE_MS} ms, and each time a call of the same guest that
returns. Meanwhile ${CLIENTS} clients call another route, on the event loop, and compare each answer with what they sent
(\`npx tsx test/long/deadlines.ts\`). *More*: what the server has more than before.

${renderOrigin()}.

| engine | 504 | calls of others | wrong | others, p99 / longest, ms | more threads | more files | child processes | more heap / buffers, MiB | |
| --- | --: | --: | --: | --: | --: | --: | --- | --: | --- |
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}`
}
