import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { orphanedTicks, processTimes } from './processes.ts'
import { percentile } from './statistics.ts'

/** How much others than the bench used the machine. Results from before a figure was measured lack it. */
export interface Quietness {
  /** Time that other programs used, as a share of that of all cores. */
  readonly load: number
  /** Time in which the hypervisor kept a core that had work, as a share of that of all cores. */
  readonly steal?: number
  /** p90 of the times of a fixed loop, divided by their minimum. */
  readonly spread?: number
}

/**
 * The limits. On a quiet virtual machine with two hyperthreads the spread is 1.01 to 1.1; a program on the other
 * hyperthread makes it 1.4 to 2.
 */
export const QUIET: Required<Quietness> = { load: 0.1, steal: 0.02, spread: 1.25 }

/** The measures that exceed their limit, each with its figure; none if the machine was quiet. */
export function disturbances({ load, steal = 0, spread = 1 }: Quietness): string[] {
  const share = (value: number) => `${(value * 100).toFixed(1)} %`
  return [
    ...(load > QUIET.load ? [`load of other programs ${share(load)}, at most ${share(QUIET.load)}`] : []),
    ...(steal > QUIET.steal ? [`steal time ${share(steal)}, at most ${share(QUIET.steal)}`] : []),
    ...(spread > QUIET.spread
      ? [`spread of a fixed loop ${spread.toFixed(2)}, at most ${QUIET.spread}`]
      : []),
  ]
}

/** The worst of each figure. */
export function worstOf(looks: readonly Quietness[]): Quietness {
  const worst = (key: keyof Quietness) => Math.max(...looks.flatMap((look) => look[key] ?? []))
  return { load: worst('load'), steal: worst('steal'), spread: worst('spread') }
}

/** Looks at the machine while the bench has nothing to do, for about a second. */
export async function lookAtMachine(): Promise<Quietness> {
  const begun = readTimes()
  await sleep(WATCHED_MS)
  const spread = spreadOfLoop()
  return { ...usedSince(begun), spread }
}

/** Watches other programs while the bench works. Its own servers count as its own after they have ended. */
export function watchMachine(): () => Quietness {
  const begun = readTimes()
  return () => usedSince(begun)
}

/**
 * Waits until the machine is quiet.
 *
 * @param seconds - The maximum wait.
 * @returns the last look, which is disturbed if the wait was too short.
 */
export async function waitForQuiet(seconds: number, progress: (line: string) => void): Promise<Quietness> {
  const until = performance.now() + seconds * 1_000
  let told = ''
  for (;;) {
    const look = await lookAtMachine()
    const problems = disturbances(look).join('; ')
    if (problems === '' || performance.now() > until) return look
    if (problems !== told) progress(`waits for a quiet machine: ${problems}`)
    told = problems
    await sleep(PAUSE_MS)
  }
}

const WATCHED_MS = 1_000

const PAUSE_MS = 2_000

interface Times {
  readonly all: number
  readonly used: number
  readonly stolen: number
  /** Time used by this process and its children that have ended. */
  readonly own: number
}

/** In ticks since the machine has started. */
function readTimes(): Times {
  // proc(5): user, nice, system, idle, iowait, irq, softirq, steal; the guests' times are part of the first two.
  const line = /^cpu +(.*)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? ''
  const times = line.split(' ').slice(0, 8).map(Number)
  const [, , , idle = 0, iowait = 0, , , stolen = 0] = times
  const all = times.reduce((sum, time) => sum + time, 0)
  const { own, endedChildren } = processTimes(readFileSync('/proc/self/stat', 'utf8'))
  return { all, used: all - idle - iowait - stolen, stolen, own: own + endedChildren + orphanedTicks() }
}

function usedSince(begun: Times): Pick<Required<Quietness>, 'load' | 'steal'> {
  const now = readTimes()
  const all = now.all - begun.all
  const others = now.used - begun.used - (now.own - begun.own)
  return { load: Math.max(0, others) / all, steal: (now.stolen - begun.stolen) / all }
}

function spreadOfLoop(): number {
  const times: number[] = []
  for (let round = -WARM_UP_LOOPS; round < LOOPS; round++) {
    const begun = performance.now()
    fixedLoop()
    if (round >= 0) times.push(performance.now() - begun)
  }
  return percentile(times, 90) / Math.min(...times)
}

const LOOPS = 40
const WARM_UP_LOOPS = 10

/** A xorshift, of some milliseconds: each step needs the one before. */
export function fixedLoop(): void {
  let x = loopResult
  for (let step = 0; step < LOOP_STEPS; step++) {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
  }
  loopResult = x
}

const LOOP_STEPS = 2_000_000

/** The result of the loop, so that no compiler leaves it out. */
let loopResult = 2_463_534_242
