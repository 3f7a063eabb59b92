import type { PluginInfo } from './admin-api.ts'
import { LabelledInput, useAttempt } from './form.tsx'
import { formatCount, formatDigest } from './format.ts'
import { Listing } from './listing.tsx'
import { readableUrl, type ViewProps } from './live-server.ts'

const BY_NAME = ['name', 'Name'] as const

/** The number of URLs on a card. */
const SHOWN_URLS = 5

/** The plug-ins, page by page, and a form that adds one. */
export function PluginsView({ server }: ViewProps) {
  return (
    <div>
      <h1>Plug-ins</h1>
      <Listing<PluginInfo>
        server={server}
        path="/api/plugins"
        name="plug-ins"
        textOrder={BY_NAME}
        empty={<p class="empty">There are no plug-ins yet.</p>}
      >
        {(plugins) => (
          <ul class="plugins">
            {plugins.map((plugin) => (
              <PluginCard key={plugin.name} plugin={plugin} />
            ))}
          </ul>
        )}
      </Listing>
      <AddForm server={server} />
    </div>
  )
}

function PluginCard({ plugin }: { readonly plugin: PluginInfo }) {
  const { name, versions, urls, calls, failures } = plugin
  const live = versions.find(({ percent }) => percent > 0)
  const more = urls.length - SHOWN_URLS
  const shown = urls.slice(0, SHOWN_URLS).map(readableUrl)
  if (more > 0) shown.push(`and ${formatCount(more)} more`)
  return (
    <li class="card">
      <a class="title" href={`#/plugins/${encodeURIComponent(name)}`}>
        {name}
      </a>
      <code class="note">{live ? formatDigest(live.digest) : 'no calls'}</code>
      <p>{shown.length > 0 ? shown.join('  ') : 'No routes'}</p>
      <p class="note">
        {formatCount(calls)} {calls === 1 ? 'call' : 'calls'}
        {failures > 0 && `, ${formatCount(failures)} failed`}
      </p>
    </li>
  )
}

function AddForm({ server }: Pick<ViewProps, 'server'>) {
  const attempt = useAttempt()
  const submit = (event: SubmitEvent & { readonly currentTarget: HTMLFormElement }) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const [name, url] = [String(form.get('name')), String(form.get('url'))]
    void attempt.run(async (setMeaning) => {
      try {
        await server.api.send('PUT', `/api/plugins/${encodeURIComponent(name)}`, form.get('module'))
        if (url === '') return `${name} was added.`
        setMeaning(`${name} was added but has no route yet.`)
        await server.api.send('POST', '/api/routes', { plugin: name, url })
        return `${name} was added and is served at ${url}.`
      } finally {
        await server.refresh()
      }
    })
  }
  return (
    <form class="card form" onSubmit={submit} aria-busy={attempt.isBusy}>
      <h2>Add a plug-in</h2>
      <div class="fields">
        <LabelledInput
          id="new-name"
          label="Name"
          name="name"
          required
          pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,63}"
        />
        <LabelledInput
          id="new-file"
          label="Module (.wasm)"
          name="module"
          type="file"
          accept=".wasm,application/wasm"
          required
        />
        <LabelledInput
          id="new-url"
          label="URL of a route (optional)"
          name="url"
          placeholder="/hello"
          pattern="/.*"
        />
      </div>
      <button class="primary" type="submit">
        Add
      </button>
      {attempt.outcome()}
    </form>
  )
}
