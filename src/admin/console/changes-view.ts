import { type Change, Refused } from './admin-api.ts'
import { element } from './element.ts'
import { formatDate, formatTime } from './format.ts'
import { Outcome } from './outcome.ts'
import type { OpenView } from './view.ts'

/** What came of the last changes, and buttons that make some. */
export const openChanges: OpenView = (server) => {
  const list = element('ol', { class: 'changes' })
  const empty = element('p', { class: 'empty', hidden: true }, 'Nothing was changed since the start.')
  const outcome = new Outcome()
  let shown = ''
  const read = async () => {
    const changes = await server.api.get<Change[]>('/api/changes').catch((error) => {
      if (error instanceof Refused) return undefined // the page says so
      throw error
    })
    const text = JSON.stringify(changes)
    if (!changes || text === shown) return
    shown = text
    list.replaceChildren(...changes.map(itemOf))
    empty.hidden = changes.length > 0
  }
  const reload = async () => {
    outcome.clear()
    try {
      const { change } = await server.api.send<{ change: Change }>('POST', '/api/reload')
      outcome.good([`Read again: revision ${change.revision} is live.`, ...change.warnings].join(' '))
    } catch (error) {
      outcome.bad(error)
    }
    await server.refresh()
  }
  return {
    title: 'Changes',
    node: element(
      'div',
      {},
      element(
        'div',
        { class: 'head' },
        element('h1', {}, 'Changes'),
        element(
          'button',
          { type: 'button', onclick: () => void reload() },
          'Read configuration and plug-ins again',
        ),
      ),
      outcome.node,
      element('section', { class: 'card', 'aria-label': 'The last changes' }, empty, list),
    ),
    live: () => void read(),
  }
}

function itemOf({ at, reason, ok, revision, ms, warnings, error }: Change): HTMLElement {
  return element(
    'li',
    {},
    element('time', { datetime: at, title: formatDate(at) }, formatTime(at)),
    element('span', { class: `badge ${ok ? 'good' : 'bad'}` }, ok ? 'Live' : 'Refused'),
    element(
      'div',
      { class: 'text' },
      element('span', {}, reason),
      element('span', { class: 'note' }, `revision ${revision}, ${ms} ms`),
      error !== undefined &&
        element('p', { class: 'why' }, error.message, ' ', element('code', {}, error.code)),
      ...warnings.map((warning) => element('p', { class: 'why' }, warning)),
    ),
  )
}
