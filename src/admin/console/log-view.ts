import { element } from './element.ts'
import { LogTable } from './log-table.ts'
import type { OpenView } from './view.ts'

/** The last lines of the whole log. What follows in the address is looked for. */
export const openLogs: OpenView = (server, search) => {
  const log = new LogTable(server, '/api/logs', search)
  return {
    title: 'Log',
    node: element('div', {}, element('h1', {}, 'Log of the server'), log.node),
    live: () => log.live(),
  }
}
