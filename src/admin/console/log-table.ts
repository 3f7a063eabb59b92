import { type LogLine, Refused } from './admin-api.ts'
import { element, setText } from './element.ts'
import { formatTime } from './format.ts'
import { field } from './plugins-view.ts'
import type { Server } from './server.ts'

/** How often lines are read again, in rounds of numbers. */
const EVERY = 2

const LOOKS: Readonly<Record<string, string>> = { warn: 'warn', error: 'bad', fatal: 'bad' }

/** Of a line, what has a place of its own. */
const KNOWN = new Set(['level', 'time', 'msg', 'err', 'plugin'])

/** The last lines of the log, the newest first, with a field that looks for some of them. */
export class LogTable {
  readonly node: HTMLElement
  readonly #server: Server
  readonly #path: string
  readonly #search = element('input', {
    id: 'log-search',
    type: 'search',
    placeholder: 'Text or a request id',
    autocomplete: 'off',
    oninput: () => this.#show(),
  })
  readonly #list = element('ol', {
    class: 'log',
    tabindex: '0',
    'aria-label': 'Lines of the log, the newest first',
  })
  readonly #note = element('p', { class: 'empty' })
  #lines: readonly LogLine[] = []
  #shown = ''
  #rounds = 0

  /** @param path - Of the API. */
  constructor(server: Server, path: string, search = '') {
    this.#server = server
    this.#path = path
    this.#search.value = search
    this.node = element(
      'section',
      { class: 'card' },
      element(
        'div',
        { class: 'head' },
        element('h2', {}, 'Log'),
        field('log-search', 'Look for', this.#search),
      ),
      this.#note,
      this.#list,
    )
  }

  live(): void {
    if (this.#rounds++ % EVERY === 0) void this.#read()
  }

  async #read(): Promise<void> {
    try {
      this.#lines = await this.#server.api.get<LogLine[]>(this.#path)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return // who asks for the numbers is told too, and tells
    }
    this.#show()
  }

  #show(): void {
    const wanted = this.#search.value.trim().toLowerCase()
    const lines = this.#lines.filter((line) => JSON.stringify(line).toLowerCase().includes(wanted)).reverse()
    const shown = JSON.stringify(lines)
    if (shown !== this.#shown) this.#list.replaceChildren(...lines.map(lineOf))
    this.#shown = shown
    this.#list.hidden = lines.length === 0
    this.#note.hidden = lines.length > 0
    setText(this.#note, this.#lines.length > 0 ? 'No line has this.' : 'Nothing was logged yet.')
  }
}

function lineOf(line: LogLine): HTMLElement {
  const { level, time, msg = '', err } = line
  const { stack } = (err ?? {}) as { readonly stack?: string }
  const fields = Object.entries(line).filter(([name]) => !KNOWN.has(name))
  return element(
    'li',
    {},
    element('time', { datetime: time }, formatTime(time)),
    element('span', { class: `level ${LOOKS[level] ?? ''}` }, level),
    element(
      'span',
      { class: 'text' },
      element('span', {}, msg),
      ...fields.map(([name, value]) =>
        element(
          'span',
          { class: 'pair' },
          `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
        ),
      ),
      stack !== undefined && element('pre', {}, stack),
    ),
  )
}
