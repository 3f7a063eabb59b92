import { expect, test } from 'vitest'
import { applyConfiguration } from '../../../src/deploy/fleet/apply-configuration.ts'
import { appliedByAll } from '../../../src/deploy/fleet/changes.ts'
import { readShared } from '../../../src/deploy/fleet/open-fleet.ts'
import { PluginTable } from '../../../src/deploy/loader.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { readConfig } from '../../../src/options/config.ts'
import { sha256 } from '../../../src/plugin/source/digest.ts'
import { file, guest, guestBytes } from '../../support/guest.ts'
import { MemoryFleet } from '../../support/memory-fleet.ts'

const ECHO = guestBytes('echo')

/** Applies a configuration with a route at this URL, as `wasm-serve fleet apply` does. */
function apply(fleet: MemoryFleet, url: string, expected?: number) {
  const path = file('wasm-serve.yaml', `routes: [{ url: ${url}, plugin: '${guest('echo')}' }]`)
  const context = { environment: {}, secrets: new Secrets(), commands: {} }
  return applyConfiguration(fleet.open(), {
    read: async (edits) => {
      const desired = await readShared(readConfig(['-c', path], {}), context, new PluginTable(), edits)
      return { desired, modules: new Map([[sha256(ECHO), ECHO]]) }
    },
    sources: {},
    rules: { canaryMs: 0, maxRefusals: 0, onRefusals: 'stop' },
    moduleMax: 1_000_000,
    by: 'me',
    reason: 'a test',
    ...(expected !== undefined && { expected }),
  })
}

test('a configuration is a new revision if something differs, and the one that was expected is the newest', async () => {
  const fleet = new MemoryFleet()
  expect(await apply(fleet, '/a')).toMatchObject({ isNew: true, head: { newest: { revision: 1 } } })
  expect(await apply(fleet, '/a')).toMatchObject({ isNew: false, head: { newest: { revision: 1 } } })
  expect(await apply(fleet, '/b', 1)).toMatchObject({ isNew: true, head: { newest: { revision: 2 } } })
  await expect(apply(fleet, '/c', 1)).rejects.toMatchObject({ code: 'WASM_SERVE_FLEET_REVISION_OTHER' })
  expect(fleet.head?.newest.revision).toBe(2)
})

test('a rollout that has stopped ends the wait for all nodes, and the same configuration begins it again', async () => {
  const fleet = new MemoryFleet()
  const { head } = await apply(fleet, '/a')
  fleet.head = { ...head, rollout: { ...head.rollout, phase: 'stopped', problem: 'no room' } }
  fleet.nodes.set('n', { ...NODE, seen: fleet.now })
  await expect(appliedByAll(fleet.open(), head.newest, 10_000)).rejects.toMatchObject({
    code: 'WASM_SERVE_FLEET_NOT_APPLIED',
    message: expect.stringContaining('no room'),
  })
  expect(await apply(fleet, '/a')).toMatchObject({ isNew: true, head: { newest: { revision: 2 } } })
})

/** A node that serves nothing yet. */
const NODE = {
  node: 'n',
  instance: 'i',
  revision: 0,
  id: '',
  since: '2026-01-02T03:04:05.678Z',
  from: 'files',
  version: '1.0.0',
  plugins: {},
  pluginCount: 0,
  pollMs: 1_000,
} as const
