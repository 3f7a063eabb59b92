import { randomUUID } from 'node:crypto'
import type {
  FleetHead,
  FleetRevision,
  NodeReport,
  Rollout,
  RolloutRules,
  SeenNode,
  SeenNodes,
} from './fleet-store.ts'

/*
 * Where a revision may be served. There is no leader: the head has all that is needed, and any node may take the next
 * step, which is a compare-and-set of the head.
 */

/** The revision that a node serves; revision 0 if it serves none of this fleet. */
type Served = Pick<FleetRevision, 'revision' | 'id'>

/** The input of {@link nextHead}. */
interface Change extends Pick<FleetRevision, 'configuration' | 'edits' | 'by' | 'reason'> {
  readonly rules: RolloutRules
  /** A node that serves it already, and so is the first of its canaries. */
  readonly node?: string | undefined
  /** The lowest number that it may have. */
  readonly least?: number | undefined
}

/** The head after a change. @param head - The head so far. */
export function nextHead(head: FleetHead | undefined, change: Change, { nodes, now }: SeenNodes): FleetHead {
  const { configuration, edits, by, reason, rules, node, least = 1 } = change
  const highest = Math.max(head?.newest.revision ?? 0, ...nodes.map(({ revision }) => revision))
  const newest: FleetRevision = {
    ...{ revision: Math.max(highest + 1, least), id: randomUUID(), configuration, edits },
    ...{ at: new Date(now).toISOString(), by, reason },
  }
  const live = nodes.filter((each) => isLive(each, now)).map((each) => each.node)
  const canaries = head && canariesOf(rules, node, live)
  const rollout: Rollout = canaries
    ? { ...rules, phase: 'canary', since: now, nodes: canaries, until: now + rules.canaryMs }
    : { ...rules, phase: 'all', since: now, nodes: [] }
  return {
    tag: randomUUID(),
    fleet: head?.fleet ?? randomUUID(),
    newest,
    before: head && servedByAll(head),
    rollout,
  }
}

/** The revision that nodes serve which may not serve the newest. */
function servedByAll({ newest, before, rollout: { phase } }: FleetHead): FleetRevision {
  return phase === 'all' || phase === 'done' ? newest : (before ?? newest)
}

/** @returns undefined if all nodes get the change at once. */
function canariesOf(
  { canaryNodes, canaryPercent }: RolloutRules,
  first: string | undefined,
  live: readonly string[],
): string[] | undefined {
  const share = canaryPercent === undefined ? live.length : Math.ceil((live.length * canaryPercent) / 100)
  const count = canaryNodes ?? share
  if (count >= live.length) return undefined
  const others = live.filter((node) => node !== first)
  return [...(first === undefined ? [] : [first]), ...shuffled(others)].slice(0, Math.max(1, count))
}

function shuffled(nodes: readonly string[]): string[] {
  const keyed = nodes.map((node): [number, string] => [Math.random(), node])
  return keyed.sort(([one], [other]) => one - other).map(([, node]) => node)
}

/**
 * The revision that a node must serve.
 *
 * @returns undefined if it keeps the one that it serves: a node never goes back.
 */
export function revisionFor(head: FleetHead, node: string, served: Served): FleetRevision | undefined {
  const { newest, rollout } = head
  const isAllowed = rollout.phase === 'canary' ? rollout.nodes.includes(node) : rollout.phase !== 'stopped'
  const wanted = isAllowed ? newest : servedByAll(head)
  if (wanted.revision < served.revision || wanted.id === served.id) return undefined
  return wanted
}

/** Reports that are older count as lost: so many intervals, and at least so long. */
const LATE_POLLS = 5
const LATE_MS = 5_000

export function isLive({ seen, pollMs }: Pick<SeenNode, 'seen' | 'pollMs'>, now: number): boolean {
  return now - seen <= Math.max(LATE_MS, LATE_POLLS * pollMs)
}

/** A node on a busy machine may fail once. */
const COUNTED_ATTEMPTS = 2

/** A node accepts no changes now, for example because none of its serving processes runs: the revision is not the reason. */
const NOT_NOW = 'WASM_SERVE_CHANGE_REFUSED'

/** Whether a node refuses the newest revision, also when it tried again. */
export function refuses(
  { refused }: Pick<NodeReport, 'refused'>,
  { newest }: Pick<FleetHead, 'newest'>,
): boolean {
  return refused?.id === newest.id && refused.code !== NOT_NOW && refused.attempts >= COUNTED_ATTEMPTS
}

/** The next step of a rollout. @returns undefined if it has to wait, or has ended. */
export function advance(head: FleetHead, { nodes, now }: SeenNodes): FleetHead | undefined {
  const { rollout, newest } = head
  const { phase } = rollout
  if (phase === 'done' || phase === 'stopped') return undefined
  const live = nodes.filter((node) => isLive(node, now))
  const refusing = live.filter((node) => refuses(node, head))
  if (refusing.length > rollout.maxRefusals) return stopped(head, refusing, now)
  const step = (next: Partial<Rollout>): FleetHead => ({
    ...head,
    tag: randomUUID(),
    rollout: { ...rollout, since: now, ...next },
  })
  const serves = ({ revision, id }: SeenNode) => id === newest.id || revision > newest.revision
  if (phase === 'all') {
    const isDone = live.length > 0 && live.every((node) => serves(node) || refuses(node, head))
    return isDone ? step({ phase: 'done' }) : undefined
  }
  if (now < (rollout.until ?? 0)) return undefined
  const canaries = live.filter(({ node }) => rollout.nodes.includes(node))
  if (canaries.some((node) => !serves(node) && !refuses(node, head))) return undefined
  if (canaries.some(serves)) return step({ phase: 'all', nodes: [], until: undefined })
  // All canaries are gone, or refuse it within the limit: others try it.
  const rest = live.filter((node) => !refuses(node, head)).map(({ node }) => node)
  const count = Math.min(rollout.nodes.length, rest.length)
  if (count === 0) return undefined
  return step({ nodes: shuffled(rest).slice(0, count), until: now + rollout.canaryMs })
}

/** The head after more nodes have refused than may. A revision that goes back is not followed by another one. */
function stopped(head: FleetHead, refusing: readonly SeenNode[], now: number): FleetHead {
  const { newest, before, rollout } = head
  const first = refusing[0]?.refused
  const count = `${refusing.length} ${refusing.length === 1 ? 'node refuses' : 'nodes refuse'}`
  const problem = `${count} revision ${newest.revision}: ${first?.message ?? ''}`
  const stop = { ...rollout, phase: 'stopped', since: now, until: undefined, problem } as const
  if (rollout.onRefusals === 'stop' || !before) return { ...head, tag: randomUUID(), rollout: stop }
  return {
    ...head,
    tag: randomUUID(),
    newest: {
      ...before,
      revision: newest.revision + 1,
      id: randomUUID(),
      at: new Date(now).toISOString(),
      by: 'the rollout',
      reason: `back to revision ${before.revision}: ${problem}`,
    },
    rollout: {
      ...rollout,
      phase: 'all',
      since: now,
      nodes: [],
      until: undefined,
      problem,
      onRefusals: 'stop',
    },
  }
}

/**
 * How far the newest revision is: `served` by all live nodes, `refused` by one or stopped, or `underway`. Without a live
 * node it is underway.
 */
export function progressOf(head: FleetHead, { nodes, now }: SeenNodes): 'served' | 'refused' | 'underway' {
  const live = nodes.filter((node) => isLive(node, now))
  if (head.rollout.phase === 'stopped' || live.some((node) => refuses(node, head))) return 'refused'
  return live.length > 0 && live.every(({ id }) => id === head.newest.id) ? 'served' : 'underway'
}
