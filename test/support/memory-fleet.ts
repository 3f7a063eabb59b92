import type {
  FleetHead,
  FleetRevision,
  FleetStore,
  NodeReport,
  SeenNode,
} from '../../src/deploy/fleet/fleet-store.ts'
import { FleetUnavailableError } from '../../src/errors/errors.ts'

/** A store of a fleet in memory, which several nodes of a test open, with a clock and faults that the test sets. */
export class MemoryFleet {
  /** The time of the store, in ms. */
  now = 1_000_000
  head: FleetHead | undefined
  revisions: FleetRevision[] = []
  readonly nodes = new Map<string, SeenNode>()
  readonly contents = new Map<string, Uint8Array>()
  readonly #uses = new Map<string, readonly string[]>()
  readonly #listeners = new Set<() => void>()
  readonly #history: number

  constructor(history = 20) {
    this.#history = history
  }

  /** Contents that no kept revision uses. */
  get unused(): string[] {
    const used = new Set([...this.#uses.values()].flat())
    return [...this.contents.keys()].filter((digest) => !used.has(digest))
  }

  /** The present content, which a failover to an old replica brings back. */
  snapshot(): () => void {
    const { head, revisions } = this
    const [contents, uses] = [new Map(this.contents), new Map(this.#uses)]
    return () => {
      this.head = head
      this.revisions = [...revisions]
      refill(this.contents, contents)
      refill(this.#uses, uses)
    }
  }

  /** @param isReachable - Whether the node's connection works. Default: it does. */
  open(isReachable: () => boolean = () => true): FleetStore {
    const reach = async () => {
      if (!isReachable()) throw new FleetUnavailableError('memory', 'a partition')
    }
    const seen = (known?: string) => ({
      now: this.now,
      head: this.head && this.head.tag === known ? ('unchanged' as const) : this.head,
    })
    return {
      name: 'memory, fleet test',
      head: async (known) => {
        await reach()
        return seen(known)
      },
      report: async (node: NodeReport, known) => {
        await reach()
        const replaced = this.nodes.get(node.node)?.instance
        this.nodes.set(node.node, { ...node, seen: this.now })
        return { ...seen(known), replaced }
      },
      write: async (expected, next, uses) => {
        await reach()
        return this.#write(expected, next, uses)
      },
      revisions: async () => {
        await reach()
        return [...this.revisions]
      },
      content: async (digest) => {
        await reach()
        return this.contents.get(digest)
      },
      missing: async (digests) => {
        await reach()
        return digests.filter((digest) => !this.contents.has(digest))
      },
      add: async (digest, bytes) => {
        await reach()
        if (!this.contents.has(digest)) this.contents.set(digest, bytes)
      },
      leave: async (node) => {
        await reach()
        this.nodes.delete(node)
      },
      nodes: async () => {
        await reach()
        return { now: this.now, nodes: [...this.nodes.values()].sort((a, b) => a.node.localeCompare(b.node)) }
      },
      onWrite: (listener) => void this.#listeners.add(listener),
      close: async () => undefined,
    }
  }

  #write(expected: string | undefined, next: FleetHead, uses: readonly string[] | undefined) {
    if (this.head?.tag !== expected) return 'changed' as const
    if (uses) {
      if (uses.some((digest) => !this.contents.has(digest))) return 'missing' as const
      const before = new Set([...this.#uses.values()].flat())
      this.#uses.set(next.newest.id, uses)
      this.revisions = [next.newest, ...this.revisions]
      const at = this.revisions.findIndex(({ id }) => id === next.before?.id)
      for (const { id } of this.revisions.splice(Math.max(this.#history, at + 1))) this.#uses.delete(id)
      const used = new Set([...this.#uses.values()].flat())
      for (const digest of before) if (!used.has(digest)) this.contents.delete(digest)
    }
    this.head = next
    for (const listener of this.#listeners) listener()
    return 'written' as const
  }
}

function refill<Value>(map: Map<string, Value>, old: ReadonlyMap<string, Value>): void {
  map.clear()
  for (const [key, value] of old) map.set(key, value)
}
