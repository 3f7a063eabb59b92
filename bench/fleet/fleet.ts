import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runWithFaults } from '../../test/support/fleet/faults.ts'
import { randomOf } from '../../test/support/random.ts'
import type { Bench, Report } from '../bench.ts'
import type { Settings } from '../settings.ts'
import { measureConvergence } from './convergence.ts'
import { planFaults } from './plan.ts'
import { type FleetMeasurements, renderFleet } from './report.ts'
import { measureAway } from './store-away.ts'

/** Measures a fleet: how soon changes are served by all nodes, and what faults cost. */
export const fleet: Bench = { name: 'fleet', minutes: 12, run }

const NODES = 10
const QUICK_NODES = 4

/** Changes of the first part, by default, and of the second. */
const CHANGES = 200

/** Requests of the second part, by default. */
const REQUESTS = 1_000_000

/** Connections to each node in the second part. */
const CONNECTIONS = 6

/** Pause of each between its requests. */
const PAUSE_MS = 10

/** How long the store is away in the third part. */
const AWAY_MS = 60_000

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const { quick } = settings
  const changes = settings.runs ?? (quick ? 20 : CHANGES)
  const requests = settings.calls ?? (quick ? 20_000 : REQUESTS)
  const seed = settings.seed ?? Math.floor(Math.random() * 1_000_000)
  progress(`seed ${seed}`)
  const random = randomOf(seed)
  const nodes = quick ? QUICK_NODES : NODES
  const convergence = await inFolder((folder) =>
    measureConvergence({ nodes, changes, folder, random }, progress),
  )
  const faults = await inFolder((folder) =>
    runWithFaults({
      ...{
        nodes,
        changes,
        requests,
        connections: CONNECTIONS,
        pauseMs: PAUSE_MS,
        folder,
        random,
        progress,
      },
      faults: planFaults(changes, random),
    }),
  )
  const awayMs = quick ? AWAY_MS / 10 : AWAY_MS
  const away = await inFolder((folder) => measureAway({ nodes, awayMs, folder }, progress))
  const data: FleetMeasurements = { convergence, faults, away }
  return {
    args: ` --runs ${changes} --calls ${requests} --seed ${seed}`,
    markdown: renderFleet(data),
    data,
  }
}

/** In a temporary folder. */
async function inFolder<Value>(measure: (folder: string) => Promise<Value>): Promise<Value> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-fleet-'))
  try {
    return await measure(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
