import { measureRuntimes } from './calls.ts'
import { autocannon } from './load/autocannon.ts'
import { measure } from './measure.ts'
import { renderNumber } from './origin.ts'
import { find, ratio } from './report.ts'
import { HELLO_BODY, noPlugin, ours } from './scenario.ts'
import { measureStarts } from './startup.ts'

/** A ratio of two figures of one try. */
interface Check {
  readonly name: string
  /** What the ratio may be at most. A quiet machine shows far less; what breaks it is a regression, not noise. */
  readonly limit: number
}

/** Measures some checks, in the order in which they are listed. */
interface Guard {
  readonly checks: readonly Check[]
  measure(): Promise<readonly number[]>
}

/** Noise hits the two sides of a ratio unequally, but not three times in a row. */
const TRIES = 3

const quiet = () => undefined

const GUARDS: readonly Guard[] = [
  {
    checks: [
      { name: 'CPU per request: inline to an echo of Fastify', limit: 1.5 },
      { name: 'CPU per request: 1 worker to inline', limit: 2 },
    ],
    measure: measureRequests,
  },
  {
    checks: [
      { name: 'time of a call: kernel to sdk, hello with 8 B', limit: 0.2 },
      { name: 'time of a call: kernel to sdk, copy of 64 KiB', limit: 0.1 },
    ],
    measure: measureCallTimes,
  },
  {
    checks: [{ name: "start to first answer: the command to Fastify's echo", limit: 1.8 }],
    measure: measureStartTimes,
  },
]

/**
 * Compares what belongs together, in one run, so that it can be trusted on a machine that does other things too.
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
  const [echo, inline, workers] = [noPlugin(HELLO_BODY), ours('inline'), ours('1 worker', '--workers', '1')]
  const effort = { tool: autocannon, runs: 1, seconds: 1, warmUpSeconds: 1, connections: [CONNECTIONS] }
  const measured = await measure([echo, inline, workers], effort, quiet)
  const of = ({ name }: { readonly name: string }) => find(measured, name, CONNECTIONS)
  return [
    ratio(of(inline), of(echo), 'cpuMicrosPerRequest'),
    ratio(of(workers), of(inline), 'cpuMicrosPerRequest'),
  ]
}

const CONNECTIONS = 100

async function measureCallTimes(): Promise<number[]> {
  const measured = await measureRuntimes(['hello, 8 B', 'copy, 64 KiB'], ROUNDS, quiet)
  return measured.map(({ ratio }) => 1 / ratio)
}

const ROUNDS = 3

async function measureStartTimes(): Promise<number[]> {
  const measured = await measureStarts([noPlugin(HELLO_BODY), ours('inline')], STARTS, quiet)
  return measured.slice(1).map(({ ratio }) => ratio)
}

const STARTS = 5
