import type { FleetView } from '../../deploy/fleet/fleet-node.ts'
import type { FleetRevision, SeenNode } from '../../deploy/fleet/fleet-store.ts'
import { isLive } from '../../deploy/fleet/rollout.ts'
import { AdminConflictError } from '../../errors/errors.ts'
import type { AdminContext } from '../feature.ts'
import type { Endpoint } from './endpoint.ts'
import { bodies, ref } from './schemas.ts'

/** The endpoints of a fleet. */
export function fleetEndpoints({ fleet }: AdminContext): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/api/fleet',
      id: 'fleet',
      summary: 'The fleet: its newest revision, its rollout, and its nodes',
      description: 'Without members other than empty lists if the server is not a node of a fleet.',
      answers: { 200: { description: 'The fleet as the store has it now.', schema: ref('Fleet') } },
      run: async () => (fleet ? viewFleet(await fleet.view()) : { nodes: [], revisions: [] }),
    },
    {
      method: 'POST',
      path: '/api/fleet/rollback',
      id: 'rollBackFleet',
      summary: 'Serve an earlier revision again, as a new one',
      description: 'The given revision. Default: the one that all nodes served before the newest.',
      body: bodies.fleetRollback,
      answers: { 200: { description: 'It is stored.', schema: ref('FleetRevision') } },
      async run({ body, by, expectRevision }) {
        if (!fleet) throw new AdminConflictError('the server is not a node of a fleet')
        expectRevision()
        const { revision } = (body ?? {}) as { readonly revision?: number }
        return viewRevision(await fleet.rollBack(revision, by))
      },
    },
  ]
}

function viewFleet({ name, node, isConnected, head, nodes, revisions, now }: FleetView): object {
  const rollout = head?.rollout
  return {
    ...{ name, node, connected: isConnected },
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

function viewRevision({ revision, at, by, reason }: FleetRevision): object {
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
