import { expect, test } from 'vitest'
import { NO_EDITS } from '../../../src/deploy/edits.ts'
import type { FleetHead } from '../../../src/deploy/fleet/fleet-store.ts'
import { NodeRecord } from '../../../src/deploy/fleet/node-record.ts'
import { PluginInvalidError } from '../../../src/errors/errors.ts'
import { openLog } from '../../../src/observe/log/log.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'

const revision = (number: number) => ({
  ...{ revision: number, id: `id ${number}`, configuration: '', edits: '' },
  ...{ by: 'a test', at: '', reason: 'a change' },
})

/** A node whose time passes when the test says so. */
function newRecord(head?: FleetHead) {
  let now = 5_000
  const secrets = new Secrets()
  secrets.add('hunter2-hunter2', '***')
  const record = new NodeRecord(
    {
      ...{ settings: { node: 'n', pollMs: 100 }, secrets, log: openLog('silent'), clock: () => now },
      states: { keep: async () => undefined },
    },
    {
      fleet: 'f',
      revision: revision(1),
      edits: NO_EDITS,
      texts: { configuration: '', edits: '' },
      from: 'fleet',
    },
    head,
  )
  return {
    record,
    pass(ms: number) {
      now += ms
    },
  }
}

const wrong = new PluginInvalidError('a.wasm', 'it has hunter2-hunter2')

test('a revision that is refused is tried again after pauses that double up to a minute', () => {
  const { record, pass } = newRecord()
  expect([record.retryInMs, record.waitsFor(revision(2))]).toEqual([Number.POSITIVE_INFINITY, false])
  const pauses = Array.from({ length: 8 }, () => {
    record.refuse(revision(2), wrong)
    return record.retryInMs
  })
  expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
  pass(59_999)
  expect([record.waitsFor(revision(2)), record.waitsFor(revision(3))]).toEqual([true, false])
  pass(1)
  expect(record.waitsFor(revision(2))).toBe(false)
  record.refuse(revision(3), wrong)
  expect(record.retryInMs).toBe(1_000)
  record.retryNow()
  expect(record.waitsFor(revision(3))).toBe(false)
})

test('a report tells what is served, and what is refused, how often and why, without secrets', () => {
  const { record } = newRecord()
  expect(record.report()).toMatchObject({
    node: 'n',
    revision: 1,
    id: 'id 1',
    from: 'fleet',
    refused: undefined,
  })
  record.refuse(revision(2), wrong)
  record.refuse(revision(2), wrong)
  const { refused } = record.report()
  expect(refused).toMatchObject({ revision: 2, id: 'id 2', code: 'WASM_SERVE_PLUGIN_INVALID', attempts: 2 })
  expect(refused?.message).not.toContain('hunter2')
  record.refuse(revision(3), new Error('no code'))
  expect(record.report().refused).toMatchObject({
    revision: 3,
    code: 'WASM_SERVE_INTERNAL_ERROR',
    attempts: 1,
  })
})

test('a store that is silent is shown with the time since its last answer', () => {
  const { record, pass } = newRecord()
  pass(1_500)
  expect(record.status).toMatchObject({ isConnected: true, silentSeconds: 0 })
  record.noteContact(true)
  pass(2_500)
  record.noteContact(false)
  expect(record.status).toMatchObject({ isConnected: false, silentSeconds: 2.5, revision: 1, newest: 0 })
})

test('the newest revision is shown beside the one that is served', () => {
  const { record } = newRecord({
    ...{ tag: 't', fleet: 'f', newest: revision(3), before: revision(1) },
    rollout: { phase: 'all', since: 0, nodes: [], canaryMs: 0, maxRefusals: 0, onRefusals: 'stop' },
  })
  expect(record.status).toMatchObject({ revision: 1, newest: 3 })
})
