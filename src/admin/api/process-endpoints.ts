import { AdminConflictError } from '../../errors/errors.ts'
import type { AdminContext } from '../feature.ts'
import { type Endpoint, expectRevision } from './endpoint.ts'
import { ref } from './schemas.ts'

const list = { type: 'array', items: ref('Process') } as const

/** The endpoints of serving processes. */
export function processEndpoints({ processes, fleet }: AdminContext): Endpoint[] {
  const shown = () =>
    processes?.list.map(({ revision, ...process }) => ({
      ...process,
      revision: revision === undefined || !fleet ? revision : fleet.revisionOf(revision),
    })) ?? []
  return [
    {
      method: 'GET',
      path: '/api/processes',
      id: 'listProcesses',
      summary: 'The serving processes',
      answers: { 200: { description: 'By number. Empty if the process itself serves.', schema: list } },
      run: shown,
    },
    {
      method: 'POST',
      path: '/api/restart',
      id: 'restart',
      summary: 'Replace all serving processes, one after another',
      description:
        'Reloads the configuration first. No request is lost. Responds when all are replaced; the restart continues if the client disconnects.',
      answers: { 200: { description: 'All are replaced.', schema: list } },
      async run({ ifMatch }, deployments) {
        if (!processes) throw new AdminConflictError('the server has no serving processes')
        expectRevision(ifMatch, deployments)
        await processes.restart('POST /api/restart')
        return shown()
      },
    },
  ]
}
