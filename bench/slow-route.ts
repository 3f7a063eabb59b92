import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { assembleGuestFile } from './guest.ts'
import { fireSockets, refuseFailures, type SocketLoad, startSocketLoad } from './load/sockets.ts'
import { renderNumber } from './origin.ts'
import { verdict } from './report.ts'
import { COMMAND, HELLO, HELLO_BODY, ours } from './scenario.ts'
import { startServer } from './server-process.ts'
import { latencies, median } from './statistics.ts'

/** A fast route beside a route whose guest computes for about 2 ms. */
export interface SlowRouteMeasurement {
  readonly slow: 'inline' | '1 worker'
  /** The time of an answer of the slow route alone. */
  readonly slowMs: number
  /** Requests a second of the slow route. */
  readonly perSecond: number
  readonly fast: { readonly p50Ms: number; readonly p99Ms: number; readonly p999Ms: number }
}

/** Maximum p99 of the fast route, as a multiple of the slow guest's time. */
const LIMIT = 3

/** The load of the slow route, as a share of what it can answer. */
const SHARE = 0.6

const FAST_PER_SECOND = 211

export async function measureSlowRoute(
  seconds: number,
  progress: (line: string) => void,
): Promise<SlowRouteMeasurement[]> {
  const moods = await assembleGuestFile('moods')
  const measured: SlowRouteMeasurement[] = []
  for (const slow of ['inline', '1 worker'] as const) {
    const one = await measureOne(slow, moods, seconds)
    measured.push(one)
    progress(`beside a slow route, ${slow}: p99 ${one.fast.p99Ms.toFixed(1)} ms`)
  }
  return measured
}

async function measureOne(
  slow: SlowRouteMeasurement['slow'],
  moods: string,
  seconds: number,
): Promise<SlowRouteMeasurement> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-slow-'))
  const file = join(folder, 'routes.json')
  const routes = [
    { url: '/fast', plugin: resolve(HELLO) },
    { url: '/slow', plugin: moods, ...(slow === '1 worker' && { workers: 1 }) },
  ]
  writeFileSync(file, JSON.stringify({ routes }))
  const scenario = ours(slow)
  const server = await startServer({ ...scenario, command: [process.execPath, ...COMMAND, '-c', file] })
  try {
    const slowLoad: Omit<SocketLoad, 'connections'> = {
      url: server.url,
      arrivals: 'even',
      request: (id) => ({ path: '/slow', body: `W ${id}` }),
      isRight: (body, answer) => answer === body,
    }
    const fastLoad: SocketLoad = {
      ...{ url: server.url, connections: 32, perSecond: FAST_PER_SECOND, arrivals: 'even' },
      request: (id) => ({ path: '/fast', body: `${HELLO_BODY} ${id}` }),
      isRight: (body, answer) => answer === scenario.answer(body),
    }
    await fireSockets({ ...fastLoad, perSecond: 2_000 }, { seconds: WARM_UP_SECONDS })
    const alone = await fireSockets({ ...slowLoad, connections: 1 }, { seconds: WARM_UP_SECONDS })
    const full = await fireSockets({ ...slowLoad, connections: 4 }, { seconds: WARM_UP_SECONDS })
    const perSecond = (SHARE * full.times.length) / full.seconds
    const beside = await startSocketLoad({ ...slowLoad, connections: 32, perSecond })
    const { times } = await fireSockets(fastLoad, { seconds, rampMs: RAMP_MS }).finally(async () => {
      beside.begin()
      await sleep(RAMP_MS)
      refuseFailures(await beside.end())
      beside.stop()
    })
    return { slow, slowMs: median(alone.times), perSecond, fast: latencies(times) }
  } finally {
    server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const WARM_UP_SECONDS = 2

const RAMP_MS = 500

export function renderSlowRoute(measured: readonly SlowRouteMeasurement[]): string {
  const rows = measured.map(({ slow, slowMs, perSecond, fast }) => {
    const ratio = fast.p99Ms / slowMs
    const cells = [
      slow,
      renderNumber(slowMs, 2),
      renderNumber(perSecond, 0),
      renderNumber(fast.p50Ms, 2),
      renderNumber(fast.p99Ms, 2),
      renderNumber(fast.p999Ms, 2),
      renderNumber(ratio, 2),
      verdict(ratio <= LIMIT),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    `| slow route | its time ms | its requests/s | fast route, p50 ms | p99 ms | p99.9 ms | p99 to the slow time | at most ${LIMIT} |`,
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |',
    ...rows,
  ].join('\n')
}
