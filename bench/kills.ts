import { setTimeout as sleep } from 'node:timers/promises'
import { post } from './client.ts'
import { renderNumber } from './origin.ts'
import { verdict } from './report.ts'
import { echoing } from './scenario.ts'
import { startServer } from './server-process.ts'
import { median, percentile } from './statistics.ts'

/**
 * Measures the effect on clients when a guest exceeds its deadline and its thread is terminated. Times begin at the
 * 504, in milliseconds.
 */
export interface KillsMeasurement {
  readonly spares: number
  /** Times until the answer to a request that is sent then. */
  readonly next: readonly number[]
  /** Times until the answer to a request that has been waiting behind the guest. */
  readonly waiting: readonly number[]
  /** The maximum median of `next`. */
  readonly floorMs: number
}

const KILLS = 50

const TIMEOUT_MS = 100

/** Pause after each kill, in which the next spare thread starts. */
const PAUSE_MS = 400

/** @param plugin - Path of `guests/moods.wat`, assembled. */
export async function measureKills(
  plugin: string,
  progress: (line: string) => void,
): Promise<KillsMeasurement[]> {
  const measured: KillsMeasurement[] = []
  for (const [spares, floorMs] of [
    [1, 10],
    [0, 100],
  ] as const) {
    const { next, waiting } = await measureWith(spares, plugin)
    measured.push({ spares, next, waiting, floorMs })
    progress(`${spares} spare: the next answer ${median(next).toFixed(1)} ms after a kill`)
  }
  return measured
}

async function measureWith(spares: number, plugin: string): Promise<{ next: number[]; waiting: number[] }> {
  const flags = ['--workers', '1', '--spare-workers', String(spares), '--timeout', String(TIMEOUT_MS)]
  const server = await startServer(echoing(`${spares} spare`, plugin, '', ...flags))
  const [next, waiting]: [number[], number[]] = [[], []]
  try {
    for (let kill = -WARM_UP_KILLS; kill < KILLS; kill++) {
      await expectEcho(server.url, `calm ${kill}`)
      await sleep(PAUSE_MS)
      const killed = post(server.url, 'L')
      await sleep(TIMEOUT_MS / 2)
      const behind = expectEcho(server.url, `behind ${kill}`)
      const { status, at } = await killed
      if (status !== 504) throw new Error(`a guest that never returns was answered with ${status}`)
      const [nextAt, behindAt] = await Promise.all([expectEcho(server.url, `next ${kill}`), behind])
      if (kill < 0) continue
      next.push(nextAt - at)
      waiting.push(behindAt - at)
    }
    return { next, waiting }
  } finally {
    server.stop()
  }
}

const WARM_UP_KILLS = 3

/** @returns when the answer was there. */
async function expectEcho(url: string, text: string): Promise<number> {
  const { status, body, at } = await post(url, text)
  if (status === 200 && body === text) return at
  throw new Error(`answered with ${status} ${body} instead of ${text}`)
}

export function renderKills(kills: readonly KillsMeasurement[]): string {
  const rows = kills.map(({ spares, next, waiting, floorMs }) => {
    const numbers = [next, waiting].flatMap((times) => [
      renderNumber(median(times), 1),
      renderNumber(percentile(times, 95), 1),
    ])
    return `| ${[spares, next.length, ...numbers, floorMs, verdict(median(next) <= floorMs)].join(' | ')} |`
  })
  return [
    '| spare threads | kills | next answer ms | p95 ms | waiting one ms | p95 ms | limit ms | |',
    '| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |',
    ...rows,
  ].join('\n')
}
