import type { Plugin } from './admin-api.ts'
import { element } from './element.ts'
import { formatDigest } from './format.ts'
import { Outcome } from './outcome.ts'
import { placeOf, type Server } from './server.ts'
import type { OpenView } from './view.ts'

/** All plug-ins, and a form that adds one. */
export const openPlugins: OpenView = (server) => {
  const list = element('ul', { class: 'plugins' })
  const empty = element('p', { class: 'empty' }, 'There is no plug-in yet.')
  const changed = () => {
    list.replaceChildren(...server.plugins.map((plugin) => card(plugin, server)))
    empty.hidden = server.plugins.length > 0
  }
  changed()
  return {
    title: 'Plug-ins',
    node: element('div', {}, element('h1', {}, 'Plug-ins'), empty, list, addForm(server)),
    changed,
  }
}

function card({ name, versions, routes }: Plugin, server: Server): HTMLElement {
  const live = versions.find(({ percent }) => percent > 0)
  const places = server.routes.filter(({ id }) => routes.includes(id)).map(placeOf)
  return element(
    'li',
    { class: 'card' },
    element('a', { class: 'title', href: `#/plugins/${encodeURIComponent(name)}` }, name),
    element('code', { class: 'note' }, live ? formatDigest(live.digest) : 'no calls'),
    element('p', {}, places.length > 0 ? places.join('  ') : 'No route leads to it.'),
  )
}

function addForm(server: Server): HTMLElement {
  const name = element('input', {
    id: 'new-name',
    required: true,
    pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}',
    autocomplete: 'off',
  })
  const file = element('input', {
    id: 'new-file',
    type: 'file',
    accept: '.wasm,application/wasm',
    required: true,
  })
  const url = element('input', { id: 'new-url', placeholder: '/hello', autocomplete: 'off', pattern: '/.*' })
  const outcome = new Outcome()
  const submit = async (event: Event) => {
    event.preventDefault()
    const [module] = file.files ?? []
    if (!module) return
    outcome.clear()
    const added = `${name.value} is there`
    let meaning: string | undefined
    try {
      await server.api.send('PUT', `/api/plugins/${encodeURIComponent(name.value)}`, module)
      meaning = `${added}, but has no route yet.`
      if (url.value !== '')
        await server.api.send('POST', '/api/routes', { plugin: name.value, url: url.value })
      outcome.good(url.value === '' ? `${added}.` : `${added}, and answers at ${url.value}.`)
    } catch (error) {
      outcome.bad(error, meaning)
    }
    await server.refresh()
  }
  return element(
    'form',
    { class: 'card form', onsubmit: (event) => void submit(event) },
    element('h2', {}, 'Add a plug-in'),
    element(
      'div',
      { class: 'fields' },
      field('new-name', 'Name', name),
      field('new-file', 'Module (.wasm)', file),
      field('new-url', 'URL of a route (optional)', url),
    ),
    element('button', { class: 'primary' }, 'Add'),
    outcome.node,
  )
}

/** A field with its label. */
export function field(id: string, label: string, input: HTMLElement): HTMLElement {
  return element('div', { class: 'field' }, element('label', { for: id }, label), input)
}
