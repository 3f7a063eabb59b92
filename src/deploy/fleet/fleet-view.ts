import type { FleetHead, FleetRevision, SeenNode, SeenNodes } from './fleet-store.ts'
import { isLive } from './rollout.ts'

/** A fleet as its store has it. */
interface StoredFleet extends SeenNodes {
  /** The store and the name of the fleet. */
  readonly name: string
  readonly head: FleetHead | undefined
  readonly revisions: readonly FleetRevision[]
}

/** A fleet as a node sees it. */
export interface FleetView extends StoredFleet {
  /** The name of this node. */
  readonly node: string
  /** Whether the store has answered last. */
  readonly isConnected: boolean
}

/** A fleet as JSON data, for the admin API and the command. */
export function viewFleet({ name, head, nodes, revisions, now }: StoredFleet): object {
  const rollout = head?.rollout
  return {
    name,
    ...(head && { id: head.fleet, newest: viewRevision(head.newest) }),
    ...(head?.before && { before: viewRevision(head.before) }),
    ...(rollout && {
      rollout: {
        phase: rollout.phase,
        since: new Date(rollout.since).toISOString(),
        nodes: rollout.nodes,
        until: rollout.until === undefined ? undefined : new Date(rollout.until).toISOString(),
        problem: rollout.problem,
      },
    }),
    nodes: nodes.map((each) => viewNode(each, now)),
    revisions: revisions.map(viewRevision),
  }
}

/** A revision as JSON data. */
export function viewRevision({ revision, at, by, reason }: FleetRevision): object {
  return { revision, at, by, reason }
}

function viewNode(node: SeenNode, now: number): object {
  const { revision, since, from, refused, version, url, plugins, pluginCount, seen } = node
  return {
    ...{
      node: node.node,
      live: isLive(node, now),
      revision,
      since,
      from,
      version,
      url,
      plugins,
      pluginCount,
    },
    lastSeen: new Date(seen).toISOString(),
    ...(refused && {
      refused: { revision: refused.revision, code: refused.code, message: refused.message },
    }),
  }
}
