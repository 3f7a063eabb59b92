import type { Change, Plugin, Version } from './admin-api.ts'
import { element } from './element.ts'
import { formatBytes, formatDate, formatDigest } from './format.ts'
import { Outcome } from './outcome.ts'
import { field } from './plugins-view.ts'
import type { Server } from './server.ts'

interface Changed {
  readonly change: Change
}

/** The versions of a plug-in: which gets the calls, and how that is changed. */
export class VersionsPanel {
  readonly node: HTMLElement
  readonly #server: Server
  readonly #path: string
  readonly #rows = element('tbody')
  readonly #outcome = new Outcome()
  readonly #file = element('input', {
    id: 'version-file',
    type: 'file',
    accept: '.wasm,application/wasm',
    required: true,
  })
  readonly #isLive = element('input', { id: 'version-live', type: 'checkbox', checked: true })
  #plugin: Plugin | undefined
  #isBusy = false

  constructor(server: Server, name: string) {
    this.#server = server
    this.#path = `/api/plugins/${encodeURIComponent(name)}`
    const heads = ['Version', 'Added', 'From', 'Size', 'Calls', 'Change']
    this.node = element(
      'section',
      { class: 'card' },
      element('h2', {}, 'Versions'),
      element(
        'table',
        {},
        element('caption', { class: 'unseen' }, 'Versions, the newest first'),
        element(
          'thead',
          {},
          element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head))),
        ),
        this.#rows,
      ),
      element(
        'form',
        { class: 'form inline', onsubmit: (event) => this.#upload(event) },
        field('version-file', 'Another version (.wasm)', this.#file),
        element(
          'div',
          { class: 'check' },
          this.#isLive,
          element('label', { for: 'version-live' }, 'Give it all calls at once'),
        ),
        element('button', { class: 'primary' }, 'Upload'),
      ),
      this.#outcome.node,
    )
  }

  show(plugin: Plugin): void {
    this.#plugin = plugin
    const focused = document.activeElement?.id
    this.#rows.replaceChildren(...plugin.versions.map((version) => this.#row(version)))
    if (focused) document.getElementById(focused)?.focus()
  }

  #row(version: Version): HTMLElement {
    const { digest, addedAt, from, bytes, percent, configured, calls, failures } = version
    const isSplit = percent > 0 && percent < 100
    return element(
      'tr',
      {},
      element(
        'th',
        { scope: 'row' },
        element('code', { title: digest }, formatDigest(digest)),
        configured && element('span', { class: 'note' }, 'of the configuration'),
      ),
      element('td', { 'data-label': 'Added' }, formatDate(addedAt)),
      element('td', { 'data-label': 'From' }, from),
      element('td', { 'data-label': 'Size', class: 'number' }, formatBytes(bytes)),
      element(
        'td',
        { 'data-label': 'Calls' },
        percent > 0
          ? element(
              'span',
              { class: `badge ${isSplit ? 'warn' : 'good'}` },
              isSplit ? `${percent} %` : 'All calls',
            )
          : element('span', { class: 'note' }, 'none'),
        isSplit && element('span', { class: 'note' }, `${calls} calls, ${failures} failed`),
      ),
      element(
        'td',
        { 'data-label': 'Change' },
        element('div', { class: 'actions' }, ...this.#actions(version)),
      ),
    )
  }

  #actions({ digest, percent }: Version): HTMLElement[] {
    if (percent === 100) return [element('span', { class: 'note' }, '–')]
    const short = formatDigest(digest)
    const isOlder = this.#indexOf(digest) > this.#indexOf(this.#live)
    const all = button(`all-${digest}`, isOlder ? 'Roll back' : 'Give all calls', `to version ${short}`, () =>
      this.#change('POST', '/rollback', { digest }, `Version ${short} gets all calls.`),
    )
    const share = button(`share-${digest}`, 'Try with 10 %', `of the calls: version ${short}`, () =>
      this.#change('PUT', '/traffic', this.#shares(digest, 10), `Version ${short} gets 10 of 100 calls.`),
    )
    const forget = button(`forget-${digest}`, 'Forget', `version ${short}`, () =>
      this.#change('DELETE', `/versions/${digest}`, undefined, `Version ${short} is forgotten.`),
    )
    return percent > 0 ? [all] : [all, share, forget]
  }

  get #live(): string {
    const [most] = [...(this.#plugin?.versions ?? [])].sort((a, b) => b.percent - a.percent)
    return most?.digest ?? ''
  }

  #indexOf(digest: string): number {
    return this.#plugin?.versions.findIndex((version) => version.digest === digest) ?? -1
  }

  #shares(digest: string, percent: number): object[] {
    return [
      { digest: this.#live, percent: 100 - percent },
      { digest, percent },
    ]
  }

  #upload(event: Event): void {
    event.preventDefault()
    const [module] = this.#file.files ?? []
    if (!module) return
    const isLive = this.#isLive.checked
    const told = isLive ? `${module.name} gets all calls.` : `${module.name} is there, and gets no calls yet.`
    void this.#change('PUT', isLive ? '' : '?live=false', module, told)
  }

  async #change(method: 'PUT' | 'POST' | 'DELETE', path: string, body: unknown, told: string): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    this.node.setAttribute('aria-busy', 'true')
    this.#outcome.clear()
    try {
      const { change } = await this.#server.api.send<Changed>(method, this.#path + path, body)
      await this.#server.refresh()
      this.#outcome.good(
        [`${told} (revision ${change.revision}, ${change.ms} ms)`, ...change.warnings].join(' '),
      )
    } catch (error) {
      this.#outcome.bad(error)
    } finally {
      this.#isBusy = false
      this.node.removeAttribute('aria-busy')
    }
  }
}

/** @param rest - What a screen reader says after its text. */
function button(id: string, text: string, rest: string, onClick: () => Promise<void>): HTMLElement {
  return element(
    'button',
    { id, type: 'button', onclick: () => void onClick() },
    text,
    element('span', { class: 'unseen' }, ` ${rest}`),
  )
}
