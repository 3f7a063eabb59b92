import { expect, test } from 'vitest'
import type { SeenNode } from '../../../src/deploy/fleet/fleet-store.ts'
import { nextHead, refuses } from '../../../src/deploy/fleet/rollout.ts'
import { ChangeRefusedError, PluginInvalidError } from '../../../src/errors/errors.ts'

const head = nextHead(
  undefined,
  {
    ...{ configuration: 'a', edits: 'b', by: 'a test', reason: 'a change' },
    rules: { canaryMs: 0, maxRefusals: 0, onRefusals: 'stop' },
  },
  { nodes: [], now: 1 },
)
const { newest } = head

test.each([
  ['a node that cannot serve a revision refuses it', new PluginInvalidError('a.wasm', 'it is text'), 2, true],
  [
    'a node that failed once does not refuse it yet',
    new PluginInvalidError('a.wasm', 'it is text'),
    1,
    false,
  ],
  [
    'a node that accepts no changes now does not',
    new ChangeRefusedError('no serving process runs'),
    9,
    false,
  ],
])('%s', (_name, { code, message }, attempts, expected) => {
  const refused = { revision: newest.revision, id: newest.id, code, message, attempts }
  expect(refuses({ refused }, { newest })).toBe(expected)
})

/** How many of so many nodes serve a change first. undefined: all at once. */
function canaries(rules: { readonly canaryNodes?: number; readonly canaryPercent?: number }, count: number) {
  const report: Omit<SeenNode, 'node'> = {
    ...{ instance: 'i', revision: 1, id: newest.id, since: '', from: 'fleet', version: '1', plugins: {} },
    ...{ pluginCount: 0, seen: 10, pollMs: 1_000 },
  }
  const nodes = Array.from({ length: count }, (_, place) => ({ ...report, node: `n${place}` }))
  const change = { configuration: 'a', edits: 'b', by: 'n0', reason: 'a change' }
  const { rollout } = nextHead(
    head,
    { ...change, rules: { ...rules, canaryMs: 50, maxRefusals: 0, onRefusals: 'stop' } },
    { nodes, now: 10 },
  )
  expect(new Set(rollout.nodes).size).toBe(rollout.nodes.length)
  return rollout.phase === 'canary' ? rollout.nodes.length : undefined
}

test.each([
  [{}, 4, undefined],
  [{ canaryNodes: 1 }, 4, 1],
  [{ canaryNodes: 3 }, 4, 3],
  [{ canaryNodes: 4 }, 4, undefined],
  [{ canaryNodes: 9 }, 4, undefined],
  [{ canaryPercent: 50 }, 4, 2],
  [{ canaryPercent: 1 }, 4, 1],
  [{ canaryPercent: 99 }, 4, undefined],
  [{ canaryPercent: 51 }, 100, 51],
  [{ canaryNodes: 1 }, 1, undefined],
])('by %j, of %d live nodes %s are canaries', (rules, count, expected) => {
  expect(canaries(rules, count)).toBe(expected)
})
