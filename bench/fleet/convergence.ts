import { setTimeout as sleep } from 'node:timers/promises'
import { START_MS } from '../../test/support/fleet/faults.ts'
import { endNodes, type NodeProcess, startNodes } from '../../test/support/fleet/node-process.ts'
import { versionIn, versionModule } from '../../test/support/fleet/versions.ts'
import { file } from '../../test/support/guest.ts'
import type { Random } from '../../test/support/random.ts'
import { startRedis } from '../../test/support/redis.ts'
import { post } from '../client.ts'

/** How soon a change is served by all nodes. Times are in ms, one for each change. */
export interface ConvergenceMeasurement {
  readonly nodes: number
  /** From sending the change until its answer. */
  readonly answered: readonly number[]
  /** From sending the change until each node has answered with the new version. */
  readonly served: readonly number[]
}

/** Interval of asking a node for its version. All nodes together must leave the machine its time for the change. */
const LOOK_MS = 5

/**
 * Changes a fleet through random nodes, one change after the other.
 *
 * @throws if a change is refused.
 */
export async function measureConvergence(
  { nodes: count, changes, folder, random }: ConvergenceSettings,
  progress: (line: string) => void,
): Promise<ConvergenceMeasurement> {
  const redis = await startRedis()
  const store = `redis://127.0.0.1:${redis.port}`
  const args = [file('handle.wasm', versionModule(0)), '--start-timeout-ms', String(START_MS)]
  const nodes = await startNodes({ count, store, args, folder })
  const [answered, served]: [number[], number[]] = [[], []]
  try {
    for (let version = 1; version <= changes; version++) {
      const node = nodes[Math.floor(random() * nodes.length)] ?? nodes[0]
      const body = versionModule(version)
      const begun = performance.now()
      const put = async () => {
        const answer = await node?.ask('PUT', '/api/plugins/handle', { body })
        answered.push(performance.now() - begun)
        if (answer?.status !== 200)
          throw new Error(`change ${version}: ${JSON.stringify(answer?.body)} ${node?.printed()}`)
      }
      const [times] = await Promise.all([Promise.all(nodes.map((each) => servedAt(each, version))), put()])
      served.push(Math.max(...times) - begun)
      if (version % 50 === 0) progress(`${version} changes of ${count} nodes`)
    }
    return { nodes: count, answered, served }
  } finally {
    await endNodes(nodes)
    await redis.stop()
  }
}

interface ConvergenceSettings {
  readonly nodes: number
  readonly changes: number
  /** Has the state folders. */
  readonly folder: string
  readonly random: Random
}

/** When a node has answered with a version. */
async function servedAt({ url }: NodeProcess, version: number): Promise<number> {
  const end = performance.now() + LIMIT_MS
  for (;;) {
    const { body, at } = await post(url, 'which ')
    if (versionIn(body, 'which ') === version) return at
    if (at > end) throw new Error(`${url} does not serve version ${version}: ${body}`)
    await sleep(LOOK_MS)
  }
}

/** A change that takes longer is a failure. */
const LIMIT_MS = 30_000
