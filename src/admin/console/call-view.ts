import { type Answer, Refused, type Route } from './admin-api.ts'
import { answerPanel } from './answer-panel.ts'
import { BodyInput } from './body-input.ts'
import { toBase64 } from './bytes.ts'
import { renderCurl } from './curl.ts'
import { element } from './element.ts'
import { Outcome } from './outcome.ts'
import { field } from './plugins-view.ts'
import { placeOf, type Server } from './server.ts'
import type { OpenView } from './view.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']

/** A form that calls a function, by the route that leads to it. */
export const openCall: OpenView = (server, id) => {
  const form = new CallForm(server, id)
  const empty = element('p', { class: 'empty' }, 'There is no route to call.')
  const changed = () => {
    form.changed()
    empty.hidden = server.routes.length > 0
    form.node.hidden = server.routes.length === 0
  }
  changed()
  return {
    title: 'Call',
    node: element('div', {}, element('h1', {}, 'Call a function'), empty, form.node),
    changed,
  }
}

class CallForm {
  readonly node: HTMLElement
  readonly #server: Server
  readonly #route = element('select', { id: 'call-route', onchange: () => this.#chosen() })
  readonly #method = element('select', { id: 'call-method', onchange: () => this.#chosenMethod() })
  readonly #path = element('input', {
    id: 'call-path',
    required: true,
    pattern: '/.*',
    spellcheck: 'false',
    autocomplete: 'off',
    oninput: () => this.#showCurl(),
  })
  readonly #headers = element('textarea', {
    id: 'call-headers',
    rows: 2,
    spellcheck: 'false',
    placeholder: 'accept: text/plain',
    oninput: () => this.#showCurl(),
  })
  readonly #curl = element('pre', { class: 'curl', tabindex: '0', 'aria-label': 'The same with curl' })
  readonly #body: BodyInput
  readonly #outcome = new Outcome()
  readonly #send = element('button', { class: 'primary' }, 'Send')
  #wanted: string

  constructor(server: Server, id: string) {
    this.#server = server
    this.#wanted = id
    this.#body = new BodyInput(() => this.#showCurl())
    const copy = element(
      'button',
      { class: 'quiet', type: 'button', onclick: () => void this.#copy(copy) },
      'Copy',
    )
    this.node = element(
      'div',
      { class: 'columns call' },
      element(
        'form',
        { class: 'card form', onsubmit: (event) => void this.#call(event) },
        element('h2', {}, 'Request'),
        field('call-route', 'Route', this.#route),
        element(
          'div',
          { class: 'fields line' },
          field('call-method', 'Method', this.#method),
          field('call-path', 'Path and query', this.#path),
        ),
        this.#body.node,
        field('call-headers', 'Headers, one a line', this.#headers),
        this.#send,
        element('div', { class: 'head' }, element('h3', {}, 'The same with curl'), copy),
        this.#curl,
      ),
      element('section', { class: 'card' }, element('h2', {}, 'Answer'), this.#outcome.node),
    )
    this.#outcome.node.append(element('p', { class: 'empty' }, 'Nothing was sent yet.'))
  }

  /** Routes have changed: what was written stays. */
  changed(): void {
    const { routes } = this.#server
    const options = routes.map((route) => {
      const text = `${route.methods.join(', ')} ${placeOf(route)} – ${route.plugin}, ${route.function}`
      return element('option', { value: route.id }, text)
    })
    this.#route.replaceChildren(...options)
    const before = this.#path.value
    if (routes.some(({ id }) => id === this.#wanted)) this.#route.value = this.#wanted
    if (before === '' || this.#route.value !== this.#wanted) this.#chosen()
  }

  get #chosenRoute(): Route | undefined {
    return this.#server.routes.find(({ id }) => id === this.#route.value)
  }

  #chosen(): void {
    const route = this.#chosenRoute
    if (!route) return
    this.#wanted = route.id
    const methods = route.methods.includes('*') ? METHODS : route.methods
    this.#method.replaceChildren(...methods.map((method) => element('option', {}, method)))
    if (methods.includes('POST')) this.#method.value = 'POST'
    this.#path.value = route.url.replaceAll('::', ':').replace(/\*$/, '')
    this.#chosenMethod()
  }

  #chosenMethod(): void {
    if (['GET', 'HEAD'].includes(this.#method.value)) this.#body.chooseNone()
    this.#showCurl()
  }

  #readHeaders(): Record<string, string> {
    const { host } = this.#chosenRoute ?? {}
    const { type } = this.#body
    const headers: Record<string, string> = {}
    if (host !== undefined) headers.host = host
    if (type !== undefined) headers['content-type'] = type
    for (const line of this.#headers.value.split('\n')) {
      const [, name, value = ''] = /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/.exec(line) ?? []
      if (name !== undefined) headers[name.toLowerCase()] = value
    }
    return headers
  }

  #showCurl(): void {
    const { url = location.origin } = this.#server.history.last ?? {}
    this.#curl.textContent = renderCurl({
      server: url.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=:)/, `//${location.hostname}`),
      method: this.#method.value,
      path: this.#path.value,
      headers: this.#readHeaders(),
      body: this.#body.curl,
    })
  }

  async #call(event: Event): Promise<void> {
    event.preventDefault()
    let body: Uint8Array | undefined
    try {
      body = await this.#body.read()
    } catch {
      return // the field says why
    }
    this.#send.disabled = true
    this.#outcome.clear()
    try {
      const answer = await this.#server.api.send<Answer>('POST', '/api/call', {
        method: this.#method.value,
        url: this.#path.value,
        headers: this.#readHeaders(),
        ...(body !== undefined && { body: toBase64(body) }),
      })
      this.#outcome.node.replaceChildren(answerPanel(answer))
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.#outcome.node.replaceChildren(element('p', { class: 'refusal' }, error.message))
    } finally {
      this.#send.disabled = false
      this.#send.focus() // a button that is disabled loses it
    }
  }

  async #copy(button: HTMLElement): Promise<void> {
    try {
      await navigator.clipboard.writeText(this.#curl.textContent ?? '')
      button.textContent = 'Copied'
    } catch {
      getSelection()?.selectAllChildren(this.#curl) // no clipboard but on localhost and over TLS
      button.textContent = 'Selected'
    }
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 2_000)
  }
}
