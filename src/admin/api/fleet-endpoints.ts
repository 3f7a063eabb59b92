import { type FleetView, viewFleet, viewRevision } from '../../deploy/fleet/fleet-view.ts'
import { AdminConflictError } from '../../errors/errors.ts'
import type { AdminContext } from '../feature.ts'
import { type Endpoint, expectRevision } from './endpoint.ts'
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
      run: async () => (fleet ? view(await fleet.view()) : { nodes: [], revisions: [] }),
    },
    {
      method: 'POST',
      path: '/api/fleet/rollback',
      id: 'rollBackFleet',
      summary: 'Serve an earlier revision again, as a new one',
      description: 'The given revision. Default: the one that all nodes served before the newest.',
      body: bodies.fleetRollback,
      answers: { 200: { description: 'It is stored.', schema: ref('FleetRevision') } },
      async run({ body, by, ifMatch }, deployments) {
        if (!fleet) throw new AdminConflictError('the server is not a node of a fleet')
        expectRevision(ifMatch, deployments)
        const { revision } = (body ?? {}) as { readonly revision?: number }
        return viewRevision(await fleet.rollBack(revision, by))
      },
    },
  ]
}

function view({ node, isConnected, ...fleet }: FleetView): object {
  return { node, connected: isConnected, ...viewFleet(fleet) }
}
