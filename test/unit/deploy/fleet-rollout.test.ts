import { expect, test } from 'vitest'
import type { SeenNode } from '../../../src/deploy/fleet/fleet-store.ts'
import { advance, nextHead, refuses } from '../../../src/deploy/fleet/rollout.ts'
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

/** Live nodes which do not serve the change yet. */
function nodesOf(count: number): SeenNode[] {
  const report: Omit<SeenNode, 'node'> = {
    ...{ instance: 'i', revision: 1, id: newest.id, since: '', from: 'fleet', version: '1', plugins: {} },
    ...{ pluginCount: 0, seen: 10, pollMs: 1_000 },
  }
  return Array.from({ length: count }, (_, place) => ({ ...report, node: `n${place}` }))
}

interface Canaries {
  readonly canaryNodes?: number
  readonly canaryPercent?: number
}

/** A change, whose canaries have 50 ms. */
function changed(rules: Canaries, nodes: readonly SeenNode[]) {
  const change = { configuration: 'a', edits: 'b', by: 'n0', reason: 'a change' }
  return nextHead(
    head,
    { ...change, rules: { ...rules, canaryMs: 50, maxRefusals: 9, onRefusals: 'stop' } },
    { nodes, now: 10 },
  )
}

/** How many of so many nodes serve a change first. undefined: all at once. */
function canaries(rules: Canaries, count: number) {
  const { rollout } = changed(rules, nodesOf(count))
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

test('canaries have their time before the change is for all nodes', () => {
  const nodes = nodesOf(2)
  const first = changed({ canaryNodes: 1 }, nodes)
  const served = nodes.map((node) => ({
    ...node,
    ...(first.rollout.nodes.includes(node.node) && first.newest),
  }))
  expect(advance(first, { nodes: served, now: 59 })).toBeUndefined()
  expect(advance(first, { nodes: served, now: 60 })?.rollout).toMatchObject({ phase: 'all', nodes: [] })
})

test('if all canaries refuse a change, the only other node is the next canary, with time of its own', () => {
  const nodes = nodesOf(2)
  const first = changed({ canaryNodes: 1 }, nodes)
  const { revision, id } = first.newest
  const refused = { revision, id, code: 'WASM_SERVE_PLUGIN_INVALID', message: 'no', attempts: 2 }
  const [canary] = first.rollout.nodes
  const seen = nodes.map((node) => (node.node === canary ? { ...node, refused } : node))
  const next = advance(first, { nodes: seen, now: 60 })
  const others = nodes.map(({ node }) => node).filter((node) => node !== canary)
  expect(next?.rollout).toMatchObject({ phase: 'canary', nodes: others, until: 110 })
  expect(advance(first, { nodes: seen.filter(({ node }) => node === canary), now: 60 })).toBeUndefined()
})
