import type { Route } from './admin-api.ts'
import { Chart } from './chart.ts'
import { element, setText } from './element.ts'
import { Figure } from './figure.ts'
import { formatBytes, formatDigest, formatMs, formatRate } from './format.ts'
import { placeOf, type Server, whichOf } from './server.ts'
import type { OpenView } from './view.ts'

/** All routes, with their numbers of now. */
export const openRoutes: OpenView = (server) => {
  const figures = new Figures()
  const body = element('tbody')
  const empty = element(
    'p',
    { class: 'empty' },
    'No route is served. ',
    element('a', { href: '#/plugins' }, 'Add a plug-in'),
    ', or name one in the configuration.',
  )
  const table = element('div', { class: 'card scroll' }, tableOf(body))
  let rows: RouteRow[] = []
  const changed = () => {
    rows = server.routes.map((route) => new RouteRow(route))
    body.replaceChildren(...rows.map(({ node }) => node))
    empty.hidden = rows.length > 0
    table.hidden = rows.length === 0
  }
  changed()
  return {
    title: 'Routes',
    node: element(
      'div',
      {},
      element('h1', {}, 'Routes'),
      figures.node,
      empty,
      table,
      element(
        'p',
        { class: 'hint' },
        'Rates and percentiles are those of the last 10 seconds, charts those of the last minute. Times are those of the guest, without its wait.',
      ),
    ),
    changed,
    live() {
      figures.show(server)
      for (const row of rows) row.show(server)
    },
  }
}

function tableOf(body: HTMLElement): HTMLElement {
  const heads = ['Route', 'Plug-in', 'Requests/s', 'p50', 'p95', 'p99', 'Failed/s', 'Waiting', 'Memory']
  return element(
    'table',
    { class: 'routes' },
    element('caption', { class: 'unseen' }, 'Routes and their numbers of now'),
    element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head)))),
    body,
  )
}

/** What all routes come to. */
class Figures {
  readonly #rate = new Figure('Requests/s')
  readonly #time = new Figure('Guest time, p99', 'time')
  readonly #failures = new Figure('Failed/s', 'failures')
  readonly #memory = new Figure('Memory', 'memory')
  readonly node = element(
    'section',
    { class: 'figures', 'aria-label': 'All routes' },
    ...[this.#rate, this.#time, this.#failures, this.#memory].map(({ node }) => node),
  )

  show({ history, routes }: Server): void {
    const now = history.window()
    const { memoryBytes = 0 } = history.last ?? {}
    const count = `${routes.length} ${routes.length === 1 ? 'route' : 'routes'}`
    this.#rate.show(
      formatRate(now.rate),
      count,
      history.series(({ rate }) => rate),
    )
    this.#time.show(
      formatMs(now.p99),
      `p50 ${formatMs(now.p50)}`,
      history.series(({ p99 }) => p99),
    )
    const waiting = `${now.waiting} waiting`
    this.#failures.show(
      formatRate(now.failureRate),
      waiting,
      history.series(({ failureRate }) => failureRate),
    )
    this.#memory.show(
      formatBytes(memoryBytes),
      `guests ${formatBytes(now.bytes)}`,
      history.series((_window, live) => live.memoryBytes),
    )
  }
}

class RouteRow {
  readonly node: HTMLElement
  readonly #route: Route
  readonly #chart = new Chart()
  readonly #rate = element('span', { class: 'number' })
  readonly #cells = ['p50', 'p95', 'p99', 'Failed/s', 'Waiting', 'Memory'].map((label) =>
    element('td', { 'data-label': label, class: 'number' }),
  )

  constructor(route: Route) {
    this.#route = route
    const { id, methods, plugin, digest, description, trouble, engine, split } = route
    const methodNames = methods.join(', ')
    this.node = element(
      'tr',
      {},
      element(
        'th',
        { scope: 'row' },
        element(
          'a',
          { href: `#/call/${id}`, 'aria-label': `Call ${methodNames} ${placeOf(route)}` },
          element('span', { class: 'method' }, methodNames === '*' ? 'any' : methodNames),
          ' ',
          element('span', { class: 'path' }, placeOf(route)),
        ),
        description !== undefined && element('span', { class: 'note' }, description),
        trouble !== undefined && element('span', { class: 'badge bad' }, trouble),
      ),
      element(
        'td',
        { 'data-label': 'Plug-in' },
        element('a', { href: `#/plugins/${encodeURIComponent(plugin)}` }, plugin),
        element('code', { class: 'note' }, formatDigest(digest)),
        split !== undefined &&
          element(
            'span',
            { class: 'badge warn' },
            `${split.percent} % to ${formatDigest(split.digest)}`,
            split.engine !== engine && ` (${split.engine})`,
          ),
      ),
      element('td', { 'data-label': 'Requests/s', class: 'rate' }, this.#rate, this.#chart.node),
      ...this.#cells,
    )
  }

  show({ history }: Server): void {
    const which = whichOf(this.#route)
    const { rate, p50, p95, p99, failureRate, waiting, bytes } = history.window(which)
    setText(this.#rate, formatRate(rate))
    const texts = [p50, p95, p99]
      .map(formatMs)
      .concat(formatRate(failureRate), String(waiting), formatBytes(bytes))
    for (const [place, cell] of this.#cells.entries()) setText(cell, texts[place] ?? '')
    this.#cells[3]?.classList.toggle('failing', failureRate > 0)
    this.#chart.show(history.series((window) => window.rate, which))
  }
}
