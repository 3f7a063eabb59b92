import { desiredState } from '../../deploy/desired-state.ts'
import { NO_EDITS } from '../../deploy/edits.ts'
import { applyEdit, type Endpoint } from './endpoint.ts'
import { ref } from './schemas.ts'

export const changeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/changes',
    id: 'listChanges',
    summary: 'What came of the last changes, the newest first',
    answers: { 200: { description: 'At most 50.', schema: { type: 'array', items: ref('Change') } } },
    run: (_request, { log }) => log.records,
  },
  {
    method: 'POST',
    path: '/api/reload',
    id: 'reload',
    summary: 'Read the configuration and the plug-ins again',
    answers: { 200: { description: 'What they say is live.', schema: ref('Changed') } },
    run: async (request, deployments) => ({
      change: await applyEdit(deployments, request, 'reload', (_now, reread) => reread()),
    }),
  },
  {
    method: 'DELETE',
    path: '/api/changes',
    id: 'forgetChanges',
    summary: 'Go back to what the configuration says',
    description: 'All that the admin API has added or changed is forgotten, versions included.',
    answers: { 200: { description: 'The configuration is live.', schema: ref('Changed') } },
    run: async (request, deployments) => ({
      change: await applyEdit(deployments, request, 'forget changes', ({ configuration, revision }) =>
        desiredState(configuration, NO_EDITS, revision),
      ),
    }),
  },
]
