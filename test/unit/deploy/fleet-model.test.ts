import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type ChangeRecord,
  type Deployment,
  type Deployments,
  reload,
} from '../../../src/deploy/deployments.ts'
import type { DesiredState } from '../../../src/deploy/desired-state.ts'
import type { Edits } from '../../../src/deploy/edits.ts'
import { revertTo } from '../../../src/deploy/fleet/changes.ts'
import { digestsOfTexts } from '../../../src/deploy/fleet/contents.ts'
import { FleetNode, type FleetServer } from '../../../src/deploy/fleet/fleet-node.ts'
import type { FleetHead, FleetRevision, RolloutRules } from '../../../src/deploy/fleet/fleet-store.ts'
import { revisionFor } from '../../../src/deploy/fleet/rollout.ts'
import { parseState, renderState } from '../../../src/deploy/state-json.ts'
import { PluginInvalidError } from '../../../src/errors/errors.ts'
import { openLog } from '../../../src/observe/log/log.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { sha256 } from '../../../src/plugin/source/digest.ts'
import { MemoryFleet } from '../../support/memory-fleet.ts'
import { runs } from '../../support/runs.ts'

const CONFIGURATION = 'the configuration'
const NODES = ['a', 'b', 'c', 'd']
const POLL_MS = 2_000
const CANARY_MS = 10_000

/** Edits whose only plug-in has one version: a number. */
function editsOf(version: number): Edits {
  const digest = sha256(`module ${version}`)
  const modules = [{ name: 'main', digest, bytes: 10 }]
  const live = { digest, name: 'p', from: 'upload', addedAt: String(version), modules } as const
  return {
    plugins: new Map([['p', { added: true, versions: [live], traffic: [{ digest, percent: 100 }] }]]),
    routes: new Map(),
  }
}

function desiredOf(edits: Edits): DesiredState {
  return { revision: 1, configuration: {} as DesiredState['configuration'], edits, warnings: [] }
}

const RECORD: ChangeRecord = {
  ...{ at: '', reason: 'test', ok: true, revision: 1, ms: 0, routes: 0, kept: 0, warnings: [] },
}

const versionOf = ({ plugins }: Edits) => Number(plugins.get('p')?.versions[0]?.addedAt)

/** A real node over a simulated store and a simulated server. */
class ModelNode {
  readonly name: string
  readonly #model: Model
  /** Versions that it cannot serve. */
  readonly refuses = new Set<number>()
  isReachable = true
  node: FleetNode
  isPreparing = false
  /** The highest revision that it has served since its last start. */
  highest = 0

  constructor(name: string, model: Model) {
    this.name = name
    this.#model = model
    this.node = this.start()
  }

  /** Starts it, as after a kill: with the state of the newest revision that it is allowed to serve. */
  start(): FleetNode {
    const { fleet, rules } = this.#model
    const head = fleet.head
    const wanted = head && revisionFor(head, this.name, { revision: 0, id: '' })
    const texts = this.#model.textsOf(wanted)
    const edits = parseState(texts.edits)
    if ('problem' in edits) throw new Error(edits.problem)
    const store = fleet.open(() => this.isReachable)
    const settings = { node: this.name, pollMs: POLL_MS, rules, moduleMax: 1_000 }
    const secrets = new Secrets()
    secrets.add('handle', 'NAME')
    // What keeps a state removes modules that it does not know.
    let isKeeping = false
    const states = {
      load: async (revision: FleetRevision) => {
        expect(isKeeping).toBe(false)
        const texts = this.#model.textsOf(revision)
        const edits = parseState(texts.edits)
        if ('problem' in edits) throw new Error(edits.problem)
        return {
          revision: revision.revision,
          configuration: {} as DesiredState['configuration'],
          edits,
          texts,
        }
      },
      renew: async () => undefined,
      module: async (digest: string) => Buffer.from(digest),
      keep: async () => {
        isKeeping = true
        await nextTurn()
        isKeeping = false
      },
      keepModules: async () => expect(isKeeping).toBe(false),
    }
    const from = wanted ? 'fleet' : 'files'
    const live = { fleet: wanted && head?.fleet, revision: wanted, edits, texts, from } as const
    const clock = () => fleet.now
    this.node = new FleetNode({ settings, store, states, secrets, log: openLog('silent'), clock }, live, head)
    this.node.attach(this.#server())
    this.highest = wanted?.revision ?? 0
    return this.node
  }

  async step(): Promise<void> {
    await this.node.step().catch((error) => {
      if (this.isReachable) throw error
    })
  }

  async put(version: number): Promise<boolean> {
    const make: Deployments['attempt'] = async (desired, _reason, { store } = {}) => {
      try {
        const now = desiredOf(editsOf(0))
        const made = typeof desired === 'function' ? await desired(now, async () => now) : desired
        if (this.refuses.has(version)) throw new PluginInvalidError('handle.wasm', 'it cannot be served')
        await store?.write(made.edits, new Map())
        return { record: RECORD }
      } catch (error) {
        return { record: { ...RECORD, ok: false }, error }
      }
    }
    const edited = desiredOf(editsOf(version))
    const { record, error } = await this.node.change(() => edited, `put ${version}`, {}, make)
    if (record.ok) this.check()
    else expect(error).toHaveProperty('code') // refused, for a reason
    return record.ok
  }

  /** A node never goes back, and serves only what some head has allowed. */
  check(): void {
    const { revision } = this.node.status
    expect(revision).toBeGreaterThanOrEqual(this.highest)
    this.highest = revision
    if (revision > 0) expect(this.#model.allowed(this.name, revision)).toBe(true)
  }

  #server(): FleetServer {
    return {
      prepare: async (desired, _reason, { store } = {}) => {
        expect(this.isPreparing).toBe(false)
        this.isPreparing = true
        const now = desiredOf(editsOf(0))
        const { edits } = typeof desired === 'function' ? await desired(now, async () => now) : desired
        this.isPreparing = false
        if (this.refuses.has(versionOf(edits)))
          throw new PluginInvalidError('handle.wasm', 'it cannot be served')
        const commit = async () => {
          await store?.write(edits, new Map())
          return {} as Deployment
        }
        return { routes: [], kept: 0, commit, abort: async () => undefined }
      },
    }
  }
}

class Model {
  readonly fleet = new MemoryFleet(100)
  readonly nodes: ModelNode[]
  readonly rules: RolloutRules
  /** All heads that there were. */
  readonly heads: FleetHead[] = []
  version = 0

  constructor(rules: RolloutRules) {
    this.rules = rules
    this.nodes = NODES.map((name) => new ModelNode(name, this))
    this.fleet.open().onWrite(() => {
      if (this.fleet.head) this.heads.push(this.fleet.head)
    })
  }

  textsOf(revision: FleetRevision | undefined) {
    if (!revision) return { configuration: CONFIGURATION, edits: renderState(editsOf(0)) }
    const edits = this.fleet.contents.get(revision.edits)
    if (!edits) throw new Error('a content is missing')
    return { configuration: CONFIGURATION, edits: Buffer.from(edits).toString() }
  }

  /** Whether a head allowed it, or the node made it: who makes a change serves it first. */
  allowed(node: string, revision: number): boolean {
    return this.heads.some((head) => revisionFor(head, node, { revision: 0, id: '' })?.revision === revision)
  }

  async seed(): Promise<void> {
    const seeded = await this.nodes[0]?.node.exclusive(
      () => this.nodes[0]?.node.seed(new Map()) ?? Promise.resolve(false),
    )
    expect(seeded).toBe(true)
    for (const node of this.nodes) await node.step()
  }

  replicate(): void {
    this.failOver = this.fleet.snapshot()
  }

  failOver: () => void = () => undefined

  at(index: number): ModelNode {
    const node = this.nodes[index % this.nodes.length]
    if (!node) throw new Error('there are no nodes')
    return node
  }

  check(): void {
    for (const node of this.nodes) node.check()
    const numbers = this.fleet.revisions.map(({ revision }) => revision)
    expect(numbers).toEqual([...new Set(numbers)].sort((one, other) => other - one))
    const { head } = this.fleet
    for (const revision of [head?.newest, head?.before])
      if (revision) expect(this.fleet.contents.has(revision.edits)).toBe(true)
  }

  /** Without faults, all nodes agree after a bounded number of polls. */
  async settle(): Promise<void> {
    for (const node of this.nodes) {
      node.isReachable = true
      node.refuses.clear()
    }
    for (let round = 0; round < 12; round++) {
      this.fleet.now += CANARY_MS
      for (const node of this.nodes) {
        await node.step()
        node.check()
      }
    }
  }
}

test('who waits for all nodes is told of those that do not report', async () => {
  const model = new Model({ canaryMs: CANARY_MS, maxRefusals: 0, onRefusals: 'stop' })
  await model.seed()
  const [a, b] = [model.at(0).node, model.at(1).node]
  const { signal } = new AbortController()
  expect(await a.applied(signal)).toEqual([])
  model.fleet.now += 10 * POLL_MS
  await a.step()
  await b.step()
  expect(await a.applied(signal)).toEqual([expect.stringMatching(/: c, d$/)])
})

test('a refused revision is tried again at once if a node is told that it may serve it', async () => {
  const rules = { canaryMs: CANARY_MS, maxRefusals: 9, onRefusals: 'stop' } as const
  const model = new Model(rules)
  await model.seed()
  const [a, b] = [model.at(0), model.at(1)]
  b.refuses.add(1)
  expect(await a.put(1)).toBe(true)
  await b.step()
  expect(b.node.status.refused).toMatchObject({ revision: 2, message: expect.stringContaining('NAME') })
  b.refuses.clear()
  await b.step()
  expect(b.node.status.revision).toBe(1)
  await b.node.change(reload, 'test', {}, async () => ({ record: RECORD }))
  await b.step()
  expect(b.node.status).toMatchObject({ revision: 2, refused: undefined })
})

interface Action {
  run(model: Model): Promise<void>
  /** For a counterexample. */
  toString(): string
}

const index = fc.nat({ max: NODES.length - 1 })
const action = (name: string, run: (model: Model) => Promise<void>): Action => ({
  run,
  toString: () => name,
})

const faults = [
  { weight: 6, arbitrary: index.map((at) => action(`step ${NODES[at]}`, (model) => model.at(at).step())) },
  {
    weight: 3,
    arbitrary: index.map((at) =>
      action(`put by ${NODES[at]}`, async (model) => void (await model.at(at).put(++model.version))),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(index, index).map(([one, other]) =>
      action(`put by ${NODES[one]} and ${NODES[other]} at once`, async (model) => {
        const [first, second] = [++model.version, ++model.version]
        await Promise.all([model.at(one).put(first), model.at(other).put(second)])
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: index.map((at) =>
      action(`${NODES[at]} refuses the next version`, async (model) => {
        model.at(at).refuses.add(model.version + 1)
      }),
    ),
  },
  {
    weight: 1,
    arbitrary: index.map((at) =>
      action(`${NODES[at]} is killed and starts`, async (model) => void model.at(at).start()),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(index, fc.boolean()).map(([at, isReachable]) =>
      action(`${NODES[at]} is ${isReachable ? 'back' : 'cut off'}`, async (model) => {
        model.at(at).isReachable = isReachable
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.integer({ min: 1, max: 2 * CANARY_MS }).map((ms) =>
      action(`${ms} ms pass`, async (model) => {
        model.fleet.now += ms
      }),
    ),
  },
  {
    weight: 1,
    arbitrary: index.map((at) =>
      action(`${NODES[at]} rolls back`, async (model) => {
        const rolled = model.at(at).node.rollBack(undefined, 'a test')
        await rolled.catch((error) => expect(error).toHaveProperty('code'))
      }),
    ),
  },
]

const losses = {
  weight: 1,
  arbitrary: fc.constantFrom(
    action('a replica gets the present state', async (model) => model.replicate()),
    action('the store fails over to the replica', async (model) => model.failOver()),
  ),
}

const rules = fc.record({
  canaryNodes: fc.constantFrom(undefined, 1, 2),
  canaryMs: fc.constant(CANARY_MS),
  maxRefusals: fc.constantFrom(0, 1, 4),
  onRefusals: fc.constantFrom('stop' as const, 'rollback' as const),
})

test('nodes never go back, serve only what is allowed, and agree when faults have ended', async () => {
  await fc.assert(
    fc.asyncProperty(rules, fc.array(fc.oneof(...faults), { maxLength: 40 }), async (rules, actions) => {
      const model = new Model(rules)
      await model.seed()
      for (const action of actions) {
        await action.run(model)
        model.check()
      }
      await model.settle()
      const { head } = model.fleet
      const serving = model.nodes.map(({ node }) => node.status.revision)
      if (head?.rollout.phase === 'stopped') {
        for (const revision of serving)
          expect([head.newest.revision, head.before?.revision]).toContain(revision)
        return
      }
      expect(head?.rollout.phase).toBe('done')
      expect(serving).toEqual(NODES.map(() => head?.newest.revision))
    }),
    { numRuns: runs(50) },
  )
})

test('a store that loses writes gets them back from the nodes, which never go back', async () => {
  await fc.assert(
    fc.asyncProperty(
      rules,
      fc.array(fc.oneof(...faults, losses), { maxLength: 40 }),
      async (rules, actions) => {
        const model = new Model(rules)
        await model.seed()
        model.replicate()
        for (const action of actions) {
          await action.run(model)
          for (const node of model.nodes) node.check()
        }
        await model.settle()
        const { head } = model.fleet
        const serving = model.nodes.map(({ node }) => node.status.revision)
        if (head?.rollout.phase === 'stopped') return
        expect(serving).toEqual(NODES.map(() => head?.newest.revision))
      },
    ),
    { numRuns: runs(40) },
  )
})

test('an operator rolls back without a node', async () => {
  const model = new Model({ canaryMs: 0, maxRefusals: 0, onRefusals: 'stop' })
  await model.seed()
  expect(await model.at(0).put(1)).toBe(true)
  const store = model.fleet.open()
  const { head } = await store.head()
  if (!head || head === 'unchanged') throw new Error('there is no head')
  const reverted = await revertTo(store, head, {
    revision: 1,
    by: 'me',
    rules: model.rules,
    moduleMax: 1_000,
  })
  expect(await store.write(head.tag, reverted.head, reverted.uses)).toBe('written')
  await model.settle()
  expect(model.nodes.map(({ node }) => node.status.revision)).toEqual(NODES.map(() => 3))
  expect(digestsOfTexts(model.textsOf(reverted.head.newest)).edits).toBe(model.fleet.revisions[2]?.edits)
})
