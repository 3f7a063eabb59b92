import { setTimeout as sleep } from 'node:timers/promises'
import { startLoad } from '../test/support/load.ts'
import { type Bench, effortOf, type Report, USUAL } from './bench.ts'
import { post } from './client.ts'
import { assembleGuestFile } from './guest.ts'
import { type Measurement, measure } from './measure.ts'
import { renderNumber } from './origin.ts'
import { renderTable, verdict } from './report.ts'
import { echoing } from './scenario.ts'
import { startServer } from './server-process.ts'
import type { Settings } from './settings.ts'

/** Measures several processes behind one port: their cost, what a second core is worth, and what a looping guest costs. */
export const processes: Bench = { name: 'processes', minutes: 8, run }

const CONNECTIONS = [100]

/** Maximum CPU per request of a serving process, as a multiple of that of a server of one process. */
const MAX_CPU = 1.05

/** The limit for two processes, which share two hardware threads with the load generator. */
const MAX_CPU_OF_TWO = 1.4

/** Minimum requests/s of two processes with a guest of 200 us, as a multiple of those of one. */
const MIN_RATE = 1.6

const ONE = 'one process'
const BUSY_ONE = 'one process, guest of 200 µs'

/** Requests that are sent while a guest loops once a second, to so many processes. */
const LOSS_REQUESTS = 100_000
const LOSS_PROCESSES = 4

/** How long a looping guest holds its process before the watchdog ends it. */
const LOSS_STALL_MS = 500

/** The effect of a looping guest on the requests of others. */
interface LossMeasurement {
  readonly processes: number
  readonly stallMs: number
  readonly requests: number
  /** Calls of the looping guest. */
  readonly loops: number
  /** Requests that were sent and not answered: their connections were reset. */
  readonly lost: number
  /** Connections that could not be opened. */
  readonly refused: number
  /** Answers with another request's body. */
  readonly wrong: number
}

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const { effort, args } = effortOf(settings, USUAL)
  const connections = settings.connections ?? CONNECTIONS
  const plugin = await assembleGuestFile('moods')
  const scenario = (name: string, body: string, ...flags: string[]) => echoing(name, plugin, body, ...flags)
  const two = ['--processes', '2']
  const scenarios = [
    scenario(ONE, 'calm'),
    scenario('a primary and one process', 'calm', '--processes', '1'),
    scenario('two processes', 'calm', ...two),
    scenario(BUSY_ONE, 'u'),
    scenario('two processes, guest of 200 µs', 'u', ...two),
  ]
  const measurements = await measure(scenarios, { ...effort, connections }, progress)
  const losses = await measureLosses(plugin, settings.quick ? LOSS_REQUESTS / 10 : LOSS_REQUESTS, progress)
  const data = { measurements, losses }
  return { args: `${args} --connections ${connections}`, markdown: renderProcesses(data), data }
}

/** What a run of this bench measures. */
export interface ProcessesMeasurements {
  readonly measurements: readonly Measurement[]
  readonly losses: LossMeasurement
}

export function renderProcesses({ measurements, losses }: ProcessesMeasurements): string {
  const table = renderTable(measurements, {
    scenarios: [{ name: ONE }],
    compared: [['two processes, guest of 200 µs', BUSY_ONE]],
    floors: [
      { scenario: 'a primary and one process', to: ONE, maxCpu: MAX_CPU },
      { scenario: 'two processes', to: ONE, maxCpu: MAX_CPU_OF_TWO },
      { scenario: 'two processes, guest of 200 µs', to: BUSY_ONE, minRate: MIN_RATE },
    ],
  })
  return `${table}\n\n${renderLosses(losses)}`
}

/** @param plugin - Path of `guests/moods.wat`, assembled. */
async function measureLosses(
  plugin: string,
  requests: number,
  progress: (line: string) => void,
): Promise<LossMeasurement> {
  const flags = ['--processes', String(LOSS_PROCESSES), '--stall-ms', String(LOSS_STALL_MS)]
  const server = await startServer(echoing('losses', plugin, 'calm', ...flags))
  try {
    const [connections = 1] = CONNECTIONS
    const load = startLoad({ url: `${server.url}/`, connections, body: (id) => `calm ${id}` })
    let loops = 0
    let isOver = false
    const loop = async () => {
      while (!isOver) {
        loops++
        void post(server.url, 'L').catch(() => undefined) // its process ends
        await sleep(1_000)
      }
    }
    const looping = loop()
    await load.answered(requests)
    isOver = true
    await looping
    const { answers, resets, refused, wrong } = await load.stop()
    progress(`a looping guest once a second: ${resets} of ${answers} requests were lost`)
    return {
      ...{ processes: LOSS_PROCESSES, stallMs: LOSS_STALL_MS, requests: answers, loops },
      ...{ lost: resets, refused, wrong },
    }
  } finally {
    server.stop()
  }
}

function renderLosses({
  processes,
  stallMs,
  requests,
  loops,
  lost,
  refused,
  wrong,
}: LossMeasurement): string {
  const cells = [
    ...[processes, stallMs, renderNumber(requests, 0), loops, lost, refused, wrong],
    verdict(refused === 0 && wrong === 0),
  ]
  return [
    'While a guest loops on the event loop of one process, once a second:',
    '',
    '| processes | `--stall-ms` | requests | loops | lost requests | refused connections | wrong answers | |',
    '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |',
    `| ${cells.join(' | ')} |`,
  ].join('\n')
}
