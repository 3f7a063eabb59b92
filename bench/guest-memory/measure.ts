import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { percentile } from '../statistics.ts'
import { type GuestServer, startGuestServer } from './guest-server.ts'
import type { Workload } from './workloads.ts'

/** The measurements of a workload of a guest. */
export interface WorkloadMeasurement {
  readonly workload: Workload['name']
  /**
   * Time that the guest ran in a call, in ms: the lower quartile of means over hundreds of calls. Means include
   * collections; the lower quartile is used because other programs on the machine can only add time.
   */
  readonly callMs: number
  /** Linear memory after so many calls. Each is the most that an instance has had by then. */
  readonly memory: readonly MemorySample[]
  /** Number of instances: one that has reached its limit is replaced. */
  readonly instances: number
}

interface MemorySample {
  readonly calls: number
  readonly mostBytes: number
}

const SAMPLED = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000]

/** Requests at a time. The guest has one call at a time: the others wait, and that is not counted. */
const OVERLAP = 10

/** Calls on which one time is based: enough for a collection to be among them. */
const BATCH = 100

/** Warm-up calls before the first that is timed: V8 optimizes the guest meanwhile. */
const WARM_UP = 500

/**
 * Calls a workload of a guest over HTTP, each time with a different body.
 *
 * @param calls - How many at the most.
 * @throws at one wrong answer.
 */
export async function measureWorkload(
  path: string,
  workload: Workload,
  calls: number,
): Promise<WorkloadMeasurement> {
  const server = await startGuestServer(path, workload.name, ['--timing'])
  const agent = new Agent({ keepAlive: true, maxSockets: OVERLAP })
  try {
    const memory: MemorySample[] = []
    const times: number[] = []
    for (const sampled of SAMPLED.filter((each) => each <= calls)) {
      while (times.length < sampled) {
        const seeds = Array.from(
          { length: Math.min(OVERLAP, sampled - times.length) },
          (_, i) => times.length + i,
        )
        times.push(...(await Promise.all(seeds.map((seed) => callOnce(server, workload, seed, agent)))))
      }
      memory.push({ calls: sampled, mostBytes: (await server.memory()).mostBytes })
    }
    const { instances } = await server.memory()
    if (instances === 0) throw new Error('the probe saw no instance of the guest')
    return { workload: workload.name, callMs: callTime(times), memory, instances }
  } finally {
    agent.destroy()
    server.stop()
  }
}

function callTime(times: readonly number[]): number {
  const warm = times.slice(Math.min(WARM_UP, times.length / 2))
  const means: number[] = []
  for (let from = 0; from < warm.length; from += BATCH) {
    const batch = warm.slice(from, from + BATCH)
    means.push(batch.reduce((sum, ms) => sum + ms, 0) / batch.length)
  }
  return percentile(means, 25)
}

/** @returns the time that the guest ran, in ms, as reported by the server. */
async function callOnce(
  { url }: Pick<GuestServer, 'url'>,
  workload: Workload,
  seed: number,
  agent: Agent,
): Promise<number> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { method: 'POST', agent }, resolve).on('error', reject).end(String(seed))
  })
  const body = await text(response)
  const expected = String(workload.answer(seed))
  if (response.statusCode !== 200 || body !== expected) {
    throw new Error(`${workload.name} of ${seed}: ${response.statusCode} ${body}, not ${expected}`)
  }
  const [, ms] = /guest;dur=([\d.]+)/.exec(String(response.headers['server-timing'])) ?? []
  return Number(ms)
}
