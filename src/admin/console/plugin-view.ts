import type { Plugin } from './admin-api.ts'
import { element } from './element.ts'
import { Figure } from './figure.ts'
import { formatBytes, formatMs, formatRate } from './format.ts'
import { LogTable } from './log-table.ts'
import { placeOf, type Server, whichOf } from './server.ts'
import { VersionsPanel } from './versions-panel.ts'
import type { OpenView } from './view.ts'

/** One plug-in: its numbers, versions, functions, imports and log. */
export const openPlugin: OpenView = (server, name) => {
  const find = () => server.plugins.find((plugin) => plugin.name === name)
  const rate = new Figure('Requests/s')
  const time = new Figure('Guest time, p99', 'time')
  const failures = new Figure('Failed/s', 'failures')
  const memory = new Figure('Memory', 'memory')
  const versions = new VersionsPanel(server, name)
  const parts = element('div', { class: 'columns' })
  const log = new LogTable(server, `/api/plugins/${encodeURIComponent(name)}/logs`)
  const content = element(
    'div',
    {},
    element(
      'section',
      { class: 'figures', 'aria-label': 'Numbers of now' },
      ...[rate, time, failures, memory].map(({ node }) => node),
    ),
    versions.node,
    parts,
    log.node,
  )
  const missing = element('p', { class: 'empty' }, 'There is no plug-in of this name.')
  const changed = () => {
    const plugin = find()
    content.hidden = plugin === undefined
    missing.hidden = plugin !== undefined
    if (!plugin) return
    versions.show(plugin)
    parts.replaceChildren(functionsOf(plugin, server), importsOf(plugin))
  }
  changed()
  return {
    title: name,
    node: element(
      'div',
      {},
      element('p', { class: 'back' }, element('a', { href: '#/plugins' }, 'Plug-ins')),
      element('h1', {}, name),
      missing,
      content,
    ),
    changed,
    live() {
      const { history, routes } = server
      const own = routes.filter(({ plugin }) => plugin === name)
      const which = {
        routes: own.flatMap((route) => whichOf(route).routes),
        digests: own.flatMap((route) => whichOf(route).digests),
      }
      const now = history.window(which)
      rate.show(
        formatRate(now.rate),
        `${now.waiting} waiting`,
        history.series((window) => window.rate, which),
      )
      time.show(
        formatMs(now.p99),
        `p50 ${formatMs(now.p50)}`,
        history.series(({ p99 }) => p99, which),
      )
      failures.show(
        formatRate(now.failureRate),
        '',
        history.series(({ failureRate }) => failureRate, which),
      )
      memory.show(
        formatBytes(now.bytes),
        'guests',
        history.series(({ bytes }) => bytes, which),
      )
      log.live()
    },
  }
}

function functionsOf({ exports, routes }: Plugin, server: Server): HTMLElement {
  const own = server.routes.filter(({ id }) => routes.includes(id))
  const rows = exports.map((name) => {
    const called = own.filter((route) => route.function === name)
    return element(
      'li',
      {},
      element('code', {}, name),
      ' ',
      ...called.map((route) =>
        element('a', { class: 'tag', href: `#/call/${route.id}` }, `Call ${placeOf(route)}`),
      ),
      called.length === 0 && element('span', { class: 'note' }, 'no route'),
    )
  })
  return element(
    'section',
    { class: 'card' },
    element('h2', {}, 'Exports'),
    rows.length > 0
      ? element('ul', { class: 'plain' }, ...rows)
      : element('p', { class: 'empty' }, 'None that can be called.'),
  )
}

function importsOf({ imports }: Plugin): HTMLElement {
  const modules = [...new Set(imports.map(({ module }) => module))]
  const groups = modules.map((module) =>
    element(
      'div',
      {},
      element('h3', {}, module),
      element(
        'p',
        { class: 'names' },
        ...imports.filter((one) => one.module === module).map(({ name }) => element('code', {}, name)),
      ),
    ),
  )
  return element(
    'section',
    { class: 'card' },
    element('h2', {}, 'Imports'),
    ...(groups.length > 0
      ? groups
      : [element('p', { class: 'empty' }, 'None: it asks its host for nothing.')]),
  )
}
