import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FAULT_KINDS, runWithFaults } from '../support/fleet/faults.ts'
import { randomOf } from '../support/random.ts'
import { STORE_SERVERS } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'

const { FLEET_SEED = '1' } = process.env

for (const server of STORE_SERVERS) {
  describeWith([server], () =>
    test('a fleet answers each request, and changes in one order, while nodes and the store fail', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-faults-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const faults = FAULT_KINDS.map((kind, index) => ({ kind, from: 2 + 2 * index, changes: 1 }))
      const result = await runWithFaults({
        ...{ nodes: 3, changes: 20, requests: 6_000, connections: 4, pauseMs: 5, pollMs: 500 },
        ...{ folder, server, faults, random: randomOf(Number(FLEET_SEED)) },
      })
      expect(result).toMatchObject({
        ...{ wrongBodies: 0, staleBodies: 0, errors: 0, failed: 0, problems: [] },
        faults: Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 1])),
      })
      expect(result.requests).toBeGreaterThanOrEqual(6_000)
      expect(result.changes.ok).toBeGreaterThan(0)
      if (process.env.FLEET_SHOW) console.log(result)
    }),
  )
}
