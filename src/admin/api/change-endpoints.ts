import { NO_CHANGES } from '../../deploy/changes.ts'
import type { Endpoint } from './endpoint.ts'
import { ref } from './schemas.ts'

export const changeEndpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/api/changes',
    id: 'listChanges',
    summary: 'What came of the last changes, the newest first',
    answers: { 200: { description: 'At most 50.', schema: { type: 'array', items: ref('Change') } } },
    run: (_request, { changer }) => changer.log.records,
  },
  {
    method: 'POST',
    path: '/api/reload',
    id: 'reload',
    summary: 'Read the configuration and the plug-ins again',
    answers: { 200: { description: 'What they say is live.', schema: ref('Changed') } },
    run: async ({ expectRevision, signal }, control) => {
      const edit = <Changes>(changes: Changes) => {
        expectRevision()
        return changes
      }
      return { change: await control.change('reload', edit, undefined, signal) }
    },
  },
  {
    method: 'DELETE',
    path: '/api/changes',
    id: 'forgetChanges',
    summary: 'Go back to what the configuration says',
    description: 'All that the admin API has added or changed is forgotten, versions included.',
    answers: { 200: { description: 'The configuration is live.', schema: ref('Changed') } },
    run: async ({ expectRevision, signal }, control) => {
      const edit = () => {
        expectRevision()
        return NO_CHANGES
      }
      return { change: await control.change('forget changes', edit, undefined, signal) }
    },
  },
]
