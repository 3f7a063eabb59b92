import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Bench } from '../bench.ts'
import { post } from '../client.ts'
import { type RunningLoad, refuseFailures, startSocketLoad } from '../load/sockets.ts'
import { COMMAND, ours } from '../scenario.ts'
import { type ServerProcess, startServer } from '../server-process.ts'
import { percentile } from '../statistics.ts'
import { PROBE_FLAGS, type Turns } from '../turns.ts'
import { largeModule, type ManyPlugins, numbered, smallModule, writePlugins } from './modules.ts'
import { renderMany } from './report.ts'
import { answerOf, bodyOf, measureZipf, type ZipfRun } from './zipf.ts'

export interface ManyMeasurements {
  readonly small: number
  readonly large: number
  readonly starts: readonly Start[]
  readonly checkMs: number
  /** Times of the first calls of plug-ins, and p99 of the routes beside. */
  readonly firstSmall: FirstCalls
  readonly firstLarge: FirstCalls
  /** p99 of the same routes before. */
  readonly besideBeforeMs: number
  readonly smallPuts: readonly Put[]
  readonly largePuts: readonly Put[]
  readonly zipf: readonly ZipfRun[]
}

export interface Start {
  /** From the command to its line that it listens. */
  readonly ms: number
  /** When it is idle again. */
  readonly memoryBytes: number
}

/** An upload of a plug-in, and its route. */
export interface Put {
  /** The longest turn of the event loop, without the time in which its thread waited for a core. */
  readonly heldMs: number
  /** The longest answer of the routes that were called before. */
  readonly longestMs: number
}

export interface FirstCalls {
  readonly times: readonly number[]
  readonly besideP99Ms: number
  /** The longest turns of the event loop meanwhile. Results from before they were measured lack it. */
  readonly turns?: Turns
}

/** Measures a process that serves thousands of plug-ins. */
export const many: Bench = {
  name: 'many',
  minutes: 8,
  async run({ runs, seconds, quick }, progress) {
    const rounds = runs ?? (quick ? 1 : 10)
    const used = seconds ?? (quick ? 1 : 2)
    const plugins = quick ? writePlugins(1_500, 15) : writePlugins(10_000, 100)
    const data = await measureMany(plugins, rounds, used, progress)
    return { args: ` --runs ${rounds} --seconds ${used}`, markdown: renderMany(data), data }
  },
}

async function measureMany(
  plugins: ManyPlugins,
  rounds: number,
  seconds: number,
  progress: (line: string) => void,
): Promise<ManyMeasurements> {
  const checkMs = await timeCheck(plugins.folder)
  progress(`check: ${checkMs.toFixed(0)} ms`)
  const starts: Start[] = []
  for (let round = 0; round < rounds; round++) {
    const start = await startOnce(plugins.folder)
    starts.push(start)
    progress(`listens after ${start.ms.toFixed(0)} ms, ${(start.memoryBytes / 1_048_576).toFixed(0)} MiB`)
  }
  const calls = await measureCallsAndPuts(plugins, seconds)
  progress(`p99 beside: ${calls.besideBeforeMs.toFixed(1)} ms before`)
  const zipf = await measureZipf(plugins, rounds, seconds, progress)
  return { small: plugins.small.length, large: plugins.large.length, starts, checkMs, ...calls, zipf }
}

async function startOnce(folder: string): Promise<Start> {
  const begun = performance.now()
  const server = await startServer(withAdmin(folder))
  try {
    const ms = performance.now() - begun
    await server.idle()
    return { ms, memoryBytes: server.memoryBytes() }
  } finally {
    server.stop()
  }
}

async function timeCheck(folder: string): Promise<number> {
  const begun = performance.now()
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  await promisify(execFile)(process.execPath, ['dist/cli.js', 'check', folder], { cwd, maxBuffer: 2 ** 28 })
  return performance.now() - begun
}

const TOKEN = 'a-token-for-the-bench-0123456789'

function withAdmin(folder: string, flags: readonly string[] = []) {
  const args = [...flags, ...COMMAND, folder, '--admin', '127.0.0.1:0']
  const env = ['env', `WASM_SERVE_ADMIN_TOKEN=${TOKEN}`] as const
  return { ...ours('many plug-ins'), command: [...env, process.execPath, ...args] as const }
}

type Calls = Omit<ManyMeasurements, 'small' | 'large' | 'starts' | 'checkMs' | 'zipf'>

/** So many routes have been called before, and are called beside. */
const CALLED = 20

const BESIDE_PER_SECOND = 500

const SMALL_CALLS = 300
const LARGE_CALLS = 30

/** Pauses between first calls: clients do not all come at once. */
const SMALL_PAUSE_MS = 10
const LARGE_PAUSE_MS = 50

const PUTS = 10

async function measureCallsAndPuts({ folder, small, large }: ManyPlugins, seconds: number): Promise<Calls> {
  const server = await startServer(withAdmin(folder, PROBE_FLAGS), true)
  const called = small.slice(0, CALLED)
  const beside = await startSocketLoad({
    ...{ url: server.url, connections: 32, perSecond: BESIDE_PER_SECOND, arrivals: 'even' },
    request: (id) => ({ path: `/${called[id % CALLED]}`, body: bodyOf(id) }),
    isRight: (body, answer) => answer === answerOf('small', body),
  })
  try {
    await sleep(2_000 * seconds)
    const besideBeforeMs = p99(await during(beside, () => sleep(1_000 * seconds)))
    const first = async (names: readonly string[], pauseMs: number): Promise<FirstCalls> => {
      let times: number[] = []
      await server.longestTurns()
      const answers = await during(beside, async () => {
        times = await callEach(names, server.url, pauseMs)
      })
      return { times, besideP99Ms: p99(answers), turns: await server.longestTurns() }
    }
    const firstSmall = await first(small.slice(CALLED, CALLED + SMALL_CALLS), SMALL_PAUSE_MS)
    const firstLarge = await first(large.slice(0, LARGE_CALLS), LARGE_PAUSE_MS)
    const smallPuts = await measurePuts(beside, server, 'small', smallModule())
    const largePuts = await measurePuts(beside, server, 'large', largeModule())
    return { besideBeforeMs, firstSmall, firstLarge, smallPuts, largePuts }
  } finally {
    beside.stop()
    server.stop()
  }
}

/** Times of the answers that were due while something was done. */
async function during(load: RunningLoad, what: () => Promise<unknown>): Promise<readonly number[]> {
  load.begin()
  await what()
  return refuseFailures(await load.end()).times
}

function p99(times: readonly number[]): number {
  return percentile(times, 99)
}

async function callEach(names: readonly string[], url: string, pauseMs: number): Promise<number[]> {
  const times: number[] = []
  for (const [i, name] of names.entries()) {
    const kind = name.startsWith('small') ? 'small' : 'large'
    const begun = performance.now()
    const { status, body, at } = await post(new URL(`/${name}`, url).href, bodyOf(i))
    if (status !== 200 || body !== answerOf(kind, bodyOf(i))) throw new Error(`${name}: ${status} ${body}`)
    times.push(at - begun)
    await sleep(pauseMs)
  }
  return times
}

async function measurePuts(
  beside: RunningLoad,
  server: ServerProcess,
  kind: string,
  module: Uint8Array,
): Promise<Put[]> {
  const puts: Put[] = []
  for (let i = 0; i < PUTS; i++) {
    await server.longestTurns()
    const times = await during(beside, async () => {
      await put(server, `new-${kind}-${i}`, numbered(module, 1_000_000 + i))
      await sleep(TAIL_MS)
    })
    const { heldMs } = await server.longestTurns()
    puts.push({ longestMs: Math.max(...times), heldMs })
  }
  return puts
}

/** How long the other routes are still measured after the answer. */
const TAIL_MS = 300

async function put(server: ServerProcess, name: string, bytes: Uint8Array): Promise<void> {
  const admin = /admin listener is on (\S+)/.exec(server.printed())?.[1]
  const answer = await fetch(`${admin}/api/plugins/${name}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/wasm' },
    body: Buffer.from(bytes),
  })
  if (answer.status !== 201) throw new Error(`PUT ${name}: ${answer.status} ${await answer.text()}`)
}
