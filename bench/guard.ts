import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { chaosRoutes, rage } from '../test/support/chaos.ts'
import { forkServer } from '../test/support/fork-server.ts'
import { randomOf } from '../test/support/random.ts'
import { missingMultiMemory } from './bench.ts'
import { measureRuntimes } from './calls.ts'
import { measureSizes } from './fresh.ts'
import { assembleGuestFile } from './guest.ts'
import { CHANGES, measureChangeTurns } from './hostile/change-turns.ts'
import { measureWorstAnswer, searchWorstAnswer } from './hostile-answers.ts'
import { measureInterrupts } from './interrupts.ts'
import { autocannon } from './load/autocannon.ts'
import { writePlugins } from './many/modules.ts'
import { measureMerge } from './merge.ts'
import { measureNeighbours, NEIGHBOURS } from './neighbours.ts'
import { renderNumber } from './origin.ts'
import { runUnderLoad } from './run.ts'
import {
  besideStreams,
  COMMAND,
  echoing,
  HELLO_BODY,
  noPlugin,
  noPluginOver,
  ours,
  oursInC,
  oursInScript,
  oursOver,
  type Scenario,
} from './scenario.ts'
import { type ServerProcess, startServer } from './server-process.ts'
import { inlineTool, official } from './sets/mcp.ts'
import { operations } from './sets/operations.ts'
import { configured, measureStarts, numberedPlugins } from './startup.ts'
import { median } from './statistics.ts'
import { measureTails, tailRatios } from './tails.ts'
import { measureVerification } from './verification.ts'

/** A ratio of two figures of one try. */
interface Check {
  readonly name: string
  /** The maximum ratio. A quiet machine has a much lower one; a regression exceeds it, noise does not. */
  readonly limit: number
}

/** Measures some checks, in the order in which they are listed. */
interface Guard {
  readonly checks: readonly Check[]
  measure(): Promise<readonly number[]>
}

/** Noise hits the two sides of a ratio unequally, but not five times in a row. */
const TRIES = 5

const quiet = () => undefined

const CONTRACTS = ['raw', 'http', 'simplism'] as const

/** The contracts with JSON answers. */
const SEARCHED = ['http', 'simplism'] as const
const SEARCHED_ANSWERS = 100

/** See `interrupts.ts`. */
const CHECKED_CALLS = ['hello, 8 B', 'markdown-rust, 4 KiB']

/** What a verification may take. */
const VERIFICATION_MS = 5

const GUARDS: readonly Guard[] = [
  {
    checks: [
      { name: 'CPU per request: inline to an echo of Fastify', limit: 1.3 },
      { name: 'CPU per request: 1 worker to inline', limit: 2.5 },
      { name: 'CPU per request: fresh to inline', limit: 2 },
      { name: 'CPU per request: 1 process to 1 worker', limit: 3 },
      { name: 'CPU per request: fresh to inline, a script', limit: 5 },
    ],
    measure: measureRequests,
  },
  {
    checks: [
      { name: 'CPU per request with 1 MiB: inline to an echo of Fastify', limit: 1.6 },
      { name: 'CPU per request with 1 MiB: 1 worker to inline', limit: 3 },
    ],
    measure: measureLargeBodies,
  },
  {
    checks: [
      { name: "CPU per request over HTTPS: inline to Fastify's echo", limit: 1.3 },
      { name: "CPU per request over HTTP/2: inline to Fastify's echo", limit: 2.2 },
    ],
    measure: measureTransports,
  },
  {
    checks: [
      { name: 'CPU per request: --admin to off', limit: 1.6 },
      { name: 'CPU per request: --access-log to off', limit: 2.5 },
      { name: 'CPU per request: --otel to off', limit: 2.5 },
    ],
    measure: measureOperations,
  },
  {
    checks: [{ name: 'CPU per request: inline beside a route that streams to inline', limit: 1.2 }],
    measure: measureBesideStreams,
  },
  {
    checks: [
      { name: 'CPU per call: a tool, inline, to a request to its route', limit: 1.8 },
      { name: 'CPU per call: a tool, inline, to the official server of MCP', limit: 0.2 },
    ],
    measure: measureTools,
  },
  {
    checks: [{ name: 'p99 with 100 connections: inline to an echo of Fastify', limit: 1.8 }],
    measure: measureTailRatio,
  },
  {
    checks: [
      { name: 'time of a call: kernel to sdk, hello with 8 B', limit: 0.2 },
      { name: 'time of a call: kernel to sdk, copy of 64 KiB', limit: 0.1 },
    ],
    measure: measureCallTimes,
  },
  {
    checks: CHECKED_CALLS.map((name) => ({
      name: `CPU of a call: with checks for interrupts to without, ${name}`,
      limit: 1.3,
    })),
    measure: measureCheckedCalls,
  },
  ...(missingMultiMemory()
    ? []
    : [
        {
          checks: [{ name: 'CPU of a call: merged to linked, copy of 64 KiB', limit: 0.5 }],
          measure: measureMergedCalls,
        },
        {
          checks: [
            { name: 'CPU of a fresh call that writes little: with 8 MiB of memory to 512 KiB', limit: 4 }, // 40 if all is restored
          ],
          measure: async () => [median(await measureSizes(11))],
        },
      ]),
  {
    checks: CONTRACTS.map((contract) => ({
      name: `CPU of the event loop: the worst answer for the contract ${contract} to a loop over its bytes`,
      limit: 10, // 5 ms a MiB
    })),
    measure: async () => CONTRACTS.map(measureWorstAnswer),
  },
  {
    checks: CHANGES.map((change) => ({
      name: `CPU of the event loop's longest turn: a change that brings ${change}, to one that brings a harmless module`,
      limit: 8, // 3.1 to 8.2 on a machine with busy neighbours; 9 to 100 where functions are not made on demand
    })),
    measure: measureChangeTurns,
  },
  {
    checks: SEARCHED.map((contract) => ({
      name: `CPU of the event loop: the worst of ${SEARCHED_ANSWERS} mixed answers for the contract ${contract} to a loop over its bytes`,
      limit: 10,
    })),
    measure: async () =>
      SEARCHED.map((contract) => searchWorstAnswer(contract, Date.now(), SEARCHED_ANSWERS).ratio),
  },
  {
    checks: [{ name: 'time of the slowest verification of a signature by a key: to 5 ms', limit: 1 }],
    measure: async () => [(await measureVerification()) / VERIFICATION_MS],
  },
  {
    checks: [
      { name: "start to first answer: the command to Fastify's echo", limit: 1.4 },
      { name: "start to first answer: with a thread to Fastify's echo", limit: 1.6 },
      { name: "start to first answer: a config file with 10 plug-ins to Fastify's echo", limit: 1.8 },
    ],
    measure: measureStartTimes,
  },
  {
    checks: [{ name: 'start to first answer: 1,000 lazy plug-ins to one', limit: 6 }],
    measure: measureLazyStarts,
  },
  {
    checks: [
      {
        name: 'time of a tick after V8 has collected: with src/platform/node-workarounds.ts to without',
        limit: 0.5,
      },
    ],
    measure: measureTickTimes,
  },
  {
    // A guest that held the event loop until its deadline would make it a hundred times.
    checks: NEIGHBOURS.map((does) => ({
      name: `p99 of other routes: beside guests that ${does} to beside guests that work`,
      limit: 8,
    })),
    measure: measureNeighbours,
  },
  {
    checks: [
      { name: 'resident memory of the process: after three times as much chaos to after once', limit: 1.4 },
      { name: "V8's heap: after three times as much chaos to after once", limit: 1.4 },
    ],
    measure: measureGrowth,
  },
]

/**
 * Compares values within one run, so that the ratio is reliable on a busy machine.
 * Prints all figures.
 *
 * @returns whether each ratio kept its limit in one of the tries.
 */
export async function guard(print: (line: string) => void): Promise<boolean> {
  let isKept = true
  for (const { checks, measure } of GUARDS) {
    const tries: (readonly number[])[] = []
    const keeps = ({ limit }: Check, i: number) => tries.some((ratios) => (ratios[i] ?? Infinity) <= limit)
    while (tries.length < TRIES && !checks.every(keeps)) tries.push(await measure())
    for (const [i, check] of checks.entries()) {
      const figures = tries.map((ratios) => renderNumber(ratios[i] ?? Number.NaN, 3)).join(', ')
      const verdict = keeps(check, i) ? 'kept' : 'NOT KEPT'
      print(`${verdict}: ${check.name}: ${figures} (at most ${check.limit})`)
      isKept &&= keeps(check, i)
    }
  }
  return isKept
}

async function measureRequests(): Promise<number[]> {
  const echo = await cpuPerRequest(noPlugin(HELLO_BODY))
  const inline = await cpuPerRequest(ours('inline'))
  const workers = await cpuPerRequest(ours('1 worker', '--workers', '1'))
  const fresh = await cpuPerRequest(ours('fresh', '--isolation', 'fresh'))
  const subprocess = await cpuPerRequest(ours('1 process', '--engine', 'subprocess'))
  const script = await cpuPerRequest(oursInScript('a script'))
  const freshScript = await cpuPerRequest(oursInScript('a script, fresh', '--isolation', 'fresh'))
  return [inline / echo, workers / inline, fresh / inline, subprocess / workers, freshScript / script]
}

async function measureLargeBodies(): Promise<number[]> {
  const copy = await assembleGuestFile('copy')
  const body = 'a'.repeat(1_048_576)
  const echo = await cpuOfLarge(noPlugin(body))
  const inline = await cpuOfLarge(echoing('inline', copy, body))
  const worker = await cpuOfLarge(echoing('1 worker', copy, body, '--workers', '1'))
  return [inline / echo, worker / inline]
}

/** With few connections, so that the bodies do not fill the memory. */
async function cpuOfLarge(scenario: Scenario): Promise<number> {
  const server = await startServer(scenario)
  try {
    const pressure = { tool: autocannon, connections: 10, seconds: 2 }
    await runUnderLoad(scenario, server, pressure)
    return (await runUnderLoad(scenario, server, pressure)).cpuMicrosPerRequest
  } finally {
    server.stop()
  }
}

async function measureTransports(): Promise<number[]> {
  const ratios: number[] = []
  for (const transport of ['https', 'http2'] as const) {
    const echo = await cpuPerRequest(noPluginOver(transport))
    ratios.push((await cpuPerRequest(oursOver(transport))) / echo)
  }
  return ratios
}

/** Guests that do not stream pay nothing for those that do. */
async function measureBesideStreams(): Promise<number[]> {
  const alone = await cpuPerRequest(ours('inline'))
  return [(await cpuPerRequest(besideStreams)) / alone]
}

async function measureTools(): Promise<number[]> {
  const route = await cpuPerRequest(ours('inline'))
  const tool = await cpuPerRequest(inlineTool)
  return [tool / route, tool / (await cpuPerRequest(official))]
}

async function measureOperations(): Promise<number[]> {
  const measured: number[] = []
  for (const scenario of OPERATIONS) measured.push(await cpuPerRequest(scenario))
  const [off = Number.NaN, ...others] = measured
  return others.map((micros) => micros / off)
}

const OPERATIONS = ['off', '--admin', '--access-log', '--otel'].flatMap((wanted) =>
  operations.scenarios.filter(({ name }) => name === wanted),
)

async function measureTailRatio(): Promise<number[]> {
  const effort = { runs: 3, seconds: 1, warmUpSeconds: 1.5, connections: [100] }
  const measured = await measureTails([noPlugin(HELLO_BODY), ours('inline')], effort, quiet, [])
  return measured.map((tail) => median(tailRatios(tail)))
}

async function cpuPerRequest(scenario: Scenario): Promise<number> {
  const server = await startServer(scenario)
  try {
    await load(scenario, server)
    return await load(scenario, server)
  } finally {
    server.stop()
  }
}

/** Counts requests, not seconds: on a busy machine V8 would not have optimized anything after a second. */
async function load(scenario: Scenario, server: ServerProcess): Promise<number> {
  let [answered, micros] = [0, 0]
  for (let second = 0; second < MAX_SECONDS && answered < REQUESTS; second++) {
    const run = await runUnderLoad(scenario, server, { tool: autocannon, connections: 100, seconds: 1 })
    answered += run.answered
    micros += run.cpuMicrosPerRequest * run.answered
  }
  return micros / answered
}

const REQUESTS = 15_000
const MAX_SECONDS = 10

async function measureCallTimes(): Promise<number[]> {
  const measured = await measureRuntimes(['hello, 8 B', 'copy, 64 KiB'], ROUNDS, quiet)
  return measured.map(({ ratio }) => 1 / ratio)
}

const ROUNDS = 3

async function measureCheckedCalls(): Promise<number[]> {
  const measured = await measureInterrupts(11, quiet, CHECKED_CALLS)
  return measured.map(({ rounds }) => median(rounds.map(({ without, checked }) => checked / without)))
}

async function measureMergedCalls(): Promise<number[]> {
  const measured = await measureMerge(2 * ROUNDS, quiet, ['copy, 64 KiB'])
  return measured.map(({ rounds }) => median(rounds.map(({ merged, linked }) => merged / linked)))
}

async function measureStartTimes(): Promise<number[]> {
  const scenarios = [
    noPlugin(HELLO_BODY),
    ours('inline'),
    ours('1 worker', '--workers', '1'),
    configured(numberedPlugins(10)),
  ]
  const measured = await measureStarts(scenarios, STARTS, quiet)
  return measured.slice(1).map(({ ratio }) => ratio)
}

const STARTS = 5

async function measureLazyStarts(): Promise<number[]> {
  const { folder, small } = writePlugins(LAZY_PLUGINS, 0)
  const all = {
    ...oursInC('1,000 plug-ins'),
    command: [process.execPath, ...COMMAND, folder] as const,
    path: `/${small[0]}`,
  }
  const measured = await measureStarts([oursInC('one plug-in'), all], 3, quiet)
  return measured.slice(1).map(({ ratio }) => ratio)
}

const LAZY_PLUGINS = 1_000

/**
 * When a Node.js version no longer needs `keptTicks` of `src/platform/node-workarounds.ts`, the ratio is 1, and it can
 * be removed.
 */
async function measureTickTimes(): Promise<number[]> {
  const without = await tickNs()
  return [(await tickNs(fileOf('../lib/platform/node-workarounds.js'))) / without]
}

async function tickNs(...modules: string[]): Promise<number> {
  const args = ['--expose-gc', fileOf('ticks.mjs'), ...modules]
  return Number((await promisify(execFile)(process.execPath, args)).stdout)
}

function fileOf(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url))
}

/** Measures a process whose guests fail in all ways while its app is replaced. @throws if an answer was wrong. */
async function measureGrowth(): Promise<number[]> {
  const routes = chaosRoutes(await assembleGuestFile('zoo', '../test/guests'))
  const { child, started } = forkServer({ routes })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  try {
    const server = await started
    const random = randomOf(1)
    const memoryAfter = async (rounds: number) => {
      const problems = await rage(server, routes, random, rounds)
      if (problems.length > 0) throw new Error(`in chaos: ${problems.slice(0, 10).join(', ')}`)
      return (await server.measure()).memory
    }
    const before = await memoryAfter(CHAOS_ROUNDS)
    const after = await memoryAfter(2 * CHAOS_ROUNDS)
    return [after.rss / before.rss, after.heapUsed / before.heapUsed]
  } finally {
    kill()
    process.off('exit', kill)
  }
}

const CHAOS_ROUNDS = 3
