import { setTimeout as sleep } from 'node:timers/promises'
import { START_MS } from '../../test/support/fleet/faults.ts'
import { endNodes, type NodeProcess, startNode, startNodes } from '../../test/support/fleet/node-process.ts'
import { versionIn, versionModule } from '../../test/support/fleet/versions.ts'
import { file } from '../../test/support/guest.ts'
import { startLoad } from '../../test/support/load.ts'
import { freePort, startRedis } from '../../test/support/redis.ts'

/** A fleet under load while its store is away. */
export interface AwayMeasurement {
  readonly nodes: number
  readonly awayMs: number
  readonly requests: number
  /** Requests that were not answered with 200, and connections that broke or were refused. */
  readonly failed: number
  readonly wrongBodies: number
  /** Nodes that were ready, and whose `/readyz` said that the store is away. */
  readonly saying: number
  /** The revision, its source, and the state of the connection of a node that was started meanwhile. */
  readonly restarted: { readonly revision: number; readonly from: string; readonly connected: boolean }
  /** From the return of the store until a change was served by all nodes. */
  readonly followedMs: number
}

/** Connections to each node: the load shows failures, and must not be all that the machine does. */
const CONNECTIONS = 2
const PAUSE_MS = 10

/** The number of plug-in versions that the fleet has had when the store goes away. */
const CHANGES = 3

export async function measureAway(
  { nodes: count, awayMs, folder }: Pick<AwayMeasurement, 'nodes' | 'awayMs'> & { readonly folder: string },
  progress: (line: string) => void,
): Promise<AwayMeasurement> {
  const data = ['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always']
  let redis = await startRedis(data)
  const store = `redis://127.0.0.1:${redis.port}`
  const args = [file('handle.wasm', versionModule(0)), '--start-timeout-ms', String(START_MS)]
  const nodes = await startNodes({ count, store, args, folder })
  try {
    for (let version = 1; version <= CHANGES; version++) await change(nodes, version)
    let wrongBodies = 0
    let isLast = false
    const loads = nodes.map(({ url }) =>
      startLoad({
        url: `${url}/`,
        connections: CONNECTIONS,
        pauseMs: PAUSE_MS,
        body: (id) => `${id} `,
        isAnswer: () => true,
        onAnswer: ({ status, body }, sent) => {
          const version = versionIn(body, sent)
          if (status === 200 && version !== CHANGES && !(isLast && version === CHANGES + 1)) wrongBodies++
        },
      }),
    )
    await redis.stop()
    progress(`the store is away for ${awayMs / 1_000} s`)
    const away = sleep(awayMs)
    const ports = { port: await freePort(), adminPort: await freePort() }
    // Its folder is that of the first node: a copy of what a node serves.
    const started = startNode({ ...ports, store, node: 'restarted', args, state: `${folder}/n0` })
    nodes.push(started)
    await started.listening
    const { revision, from, connected } = (await readinessOf(started)).fleet
    await away
    const states = await Promise.all(nodes.map(readinessOf))
    const saying = states.filter(({ ready, fleet }) => ready && !fleet.connected).length
    redis = await startRedis(data, redis.port)
    const back = performance.now()
    isLast = true
    while ((await Promise.all(nodes.map(readinessOf))).some(({ fleet }) => !fleet.connected)) await sleep(10)
    await change(nodes, CHANGES + 1)
    const followedMs = performance.now() - back
    const counts = await Promise.all(loads.map((load) => load.stop()))
    const sum = (of: (each: (typeof counts)[number]) => number) =>
      counts.reduce((all, each) => all + of(each), 0)
    return {
      ...{ nodes: count, awayMs, wrongBodies, saying, followedMs, restarted: { revision, from, connected } },
      requests: sum(({ answers }) => answers),
      failed: sum(({ non2xx, resets, refused }) => non2xx + resets + refused),
    }
  } finally {
    await endNodes(nodes)
    await redis.stop()
  }
}

/** @throws if not all nodes serve it. */
async function change([node]: readonly NodeProcess[], version: number): Promise<void> {
  const path = '/api/plugins/handle?wait=applied'
  const { status, body } = (await node?.ask('PUT', path, { body: versionModule(version) })) ?? {}
  if (status !== 200) throw new Error(`change ${version} was not served by all: ${JSON.stringify(body)}`)
}

interface Readiness {
  readonly ready: boolean
  readonly fleet: AwayMeasurement['restarted']
}

async function readinessOf({ adminUrl }: NodeProcess): Promise<Readiness> {
  return (await (await fetch(`${adminUrl}/readyz`)).json()) as Readiness
}
