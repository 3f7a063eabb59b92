import { assembleGuestFile } from './guest.ts'
import { autocannon } from './load/autocannon.ts'
import { renderNumber } from './origin.ts'
import type { ThreadTimes } from './processes.ts'
import { runUnderLoad } from './run.ts'
import { echoing, ours, type Scenario } from './scenario.ts'
import { type ServerProcess, startServer } from './server-process.ts'
import { median } from './statistics.ts'

/** What the threads of a server do for each request: the medians of some servers. */
export interface WakeUps {
  readonly scenario: string
  readonly connections: number
  readonly p50Ms: number
  /** The first thread of the process that was started. */
  readonly loop: ThreadTimes
  /** The busiest other thread: that of the guest, if it has one; of several processes, the loop of one. */
  readonly guest: ThreadTimes
  /** All others: those of V8 and of Node.js, and the watchdog. */
  readonly others: ThreadTimes
}

const CONNECTIONS = [1, 8, 64, 256]

/** Few connections, so that the largest bodies do not fill the memory. */
const CONNECTIONS_OF_LARGE = [10]

/** Measures who works, sleeps and wakes for a request. */
export async function measureWakeUps(
  runs: number,
  seconds: number,
  progress: (line: string) => void,
): Promise<WakeUps[]> {
  const small = [
    ours(INLINE),
    ours('1 worker', '--workers', '1'),
    ours('1 process', '--engine', 'subprocess'),
    ours('2 processes', '--processes', '2'),
  ]
  const copy = await assembleGuestFile('copy')
  const large = [65_536, 1_048_576].flatMap((bytes) => {
    const [size, body] = [bytes < 1_048_576 ? '64 KiB' : '1 MiB', 'a'.repeat(bytes)]
    return [
      echoing(`${INLINE}, ${size}`, copy, body),
      echoing(`1 worker, ${size}`, copy, body, '--workers', '1'),
    ]
  })
  const all: WakeUps[] = []
  for (let run = 0; run < runs; run++) {
    for (const scenario of small) all.push(...(await measureServer(scenario, CONNECTIONS, seconds)))
    for (const scenario of large) all.push(...(await measureServer(scenario, CONNECTIONS_OF_LARGE, seconds)))
    progress(`run ${run + 1}: who works, sleeps and wakes`)
  }
  const mediansOf = (scenarios: readonly Scenario[], connections: number) =>
    scenarios.map(({ name }) =>
      medians(all.filter((each) => each.scenario === name && each.connections === connections)),
    )
  return [
    ...CONNECTIONS.flatMap((connections) => mediansOf(small, connections)),
    ...CONNECTIONS_OF_LARGE.flatMap((connections) => mediansOf(large, connections)),
  ]
}

const INLINE = 'inline'

/** One server gets all numbers of connections. */
async function measureServer(
  scenario: Scenario,
  connections: readonly number[],
  seconds: number,
): Promise<WakeUps[]> {
  const server = await startServer(scenario)
  try {
    const warmUp = { tool: autocannon, connections: Math.max(...connections), seconds: 2 }
    await runUnderLoad(scenario, server, warmUp)
    const measured: WakeUps[] = []
    for (const count of connections) measured.push(await measureOnce(scenario, server, count, seconds))
    return measured
  } finally {
    server.stop()
  }
}

async function measureOnce(
  scenario: Scenario,
  server: ServerProcess,
  connections: number,
  seconds: number,
): Promise<WakeUps> {
  const before = server.threads()
  const { answered, p50Ms } = await runUnderLoad(scenario, server, { tool: autocannon, connections, seconds })
  const used = [...server.threads()].map(([id, times]) => each(times, before.get(id) ?? NOTHING, answered))
  const [loop = NOTHING, ...rest] = used
  const [guest = NOTHING, ...others] = rest.sort((a, b) => b.cpuMicros - a.cpuMicros)
  return { scenario: scenario.name, connections, p50Ms, loop, guest, others: others.reduce(add, NOTHING) }
}

const NOTHING: ThreadTimes = { cpuMicros: 0, waitedMicros: 0, sleeps: 0 }

/** What was used since, for each request. */
function each(now: ThreadTimes, before: ThreadTimes, requests: number): ThreadTimes {
  const of = (key: keyof ThreadTimes) => (now[key] - before[key]) / requests
  return { cpuMicros: of('cpuMicros'), waitedMicros: of('waitedMicros'), sleeps: of('sleeps') }
}

function add(a: ThreadTimes, b: ThreadTimes): ThreadTimes {
  return {
    cpuMicros: a.cpuMicros + b.cpuMicros,
    waitedMicros: a.waitedMicros + b.waitedMicros,
    sleeps: a.sleeps + b.sleeps,
  }
}

function medians(measured: readonly WakeUps[]): WakeUps {
  const [first] = measured
  if (!first) throw new Error('nothing was measured')
  const thread = (name: 'loop' | 'guest' | 'others'): ThreadTimes => ({
    cpuMicros: median(measured.map((each) => each[name].cpuMicros)),
    waitedMicros: median(measured.map((each) => each[name].waitedMicros)),
    sleeps: median(measured.map((each) => each[name].sleeps)),
  })
  const p50Ms = median(measured.map((each) => each.p50Ms))
  return { ...first, p50Ms, loop: thread('loop'), guest: thread('guest'), others: thread('others') }
}

export function renderWakeUps(measured: readonly WakeUps[]): string {
  const rows = measured.map(({ scenario, connections, p50Ms, loop, guest, others }) => {
    const hasGuest = !scenario.startsWith(INLINE)
    const rest = hasGuest ? others : add(guest, others)
    const cells = [
      scenario,
      connections,
      renderNumber(loop.cpuMicros, 1),
      hasGuest ? renderNumber(guest.cpuMicros, 1) : '',
      renderNumber(rest.cpuMicros, 1),
      renderNumber(loop.sleeps, 2),
      hasGuest ? renderNumber(guest.sleeps, 2) : '',
      renderNumber(loop.waitedMicros, 1),
      hasGuest ? renderNumber(guest.waitedMicros, 1) : '',
      renderNumber(p50Ms, 2),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    '| scenario | connections | loop: CPU µs | guest: CPU µs | others: CPU µs | loop: sleeps | guest: sleeps | loop: waits for a core µs | guest: the same | p50 ms |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
  ].join('\n')
}
