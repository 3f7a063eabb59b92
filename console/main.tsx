import { type ComponentType, render } from 'preact'
import { useEffect } from 'preact/hooks'
import { AdminApi, AdminApiError } from './admin-api.ts'
import { CallView } from './call-view.tsx'
import { ChangesView } from './changes-view.tsx'
import { FleetView } from './fleet-view.tsx'
import { LabelledInput } from './form.tsx'
import { LiveServer, type ViewProps } from './live-server.ts'
import { LogView } from './log-view.tsx'
import { PluginView } from './plugin-view.tsx'
import { PluginsView } from './plugins-view.tsx'
import { ProcessesView } from './processes-view.tsx'
import { RoutesView } from './routes-view.tsx'
import { ToolsView } from './tools-view.tsx'

/* Renders the page: the sign-in form, or the navigation and the view in the address. */

interface ViewEntry {
  readonly title: string
  readonly View: ComponentType<ViewProps>
}

/** Views by their names in the address, in navigation order. */
const VIEWS: ReadonlyMap<string, ViewEntry> = new Map([
  ['', { title: 'Routes', View: RoutesView }],
  ['plugins', { title: 'Plug-ins', View: PluginsView }],
  ['call', { title: 'Call', View: CallView }],
  ['tools', { title: 'Tools', View: ToolsView }],
  ['changes', { title: 'Changes', View: ChangesView }],
  ['processes', { title: 'Processes', View: ProcessesView }],
  ['fleet', { title: 'Fleet', View: FleetView }],
  ['log', { title: 'Log', View: LogView }],
])

/** An address that was mistyped, or is of another version. */
function UnknownView() {
  return (
    <>
      <h1>Not found</h1>
      <p>
        The console has nothing at this address. <a href="#/">Show the routes</a>
      </p>
    </>
  )
}

const TOKEN_KEY = 'wasm-serve-token'

const rootElement = document.getElementById('console')
/** Set after the server accepted the token. */
let server: LiveServer | undefined
/** Number of views shown so far: each visit of a view begins anew. */
let visits = 0
/** The error of the last sign-in. */
let refusal: AdminApiError | undefined

addEventListener('hashchange', () => {
  if (location.hash.startsWith('#token=')) return void signInAgain() // the console's address with a token, opened in this tab
  if (!server) return
  visits++
  draw()
  scrollTo(0, 0)
  focusMain()
})
void signInAgain()

async function signInAgain(): Promise<void> {
  const token = takeToken()
  if (token === undefined) draw()
  else await signIn(token)
}

/**
 * The token from the fragment of the URL, which browsers do not send to servers; otherwise the token saved for this
 * tab. The fragment is removed immediately, to keep the token out of the history and bookmarks.
 */
function takeToken(): string | undefined {
  const [, token] = /^#token=(.+)$/.exec(location.hash) ?? []
  if (token === undefined) return sessionStorage.getItem(TOKEN_KEY) ?? undefined
  history.replaceState(null, '', `${location.pathname}#/`)
  return decodeFragment(token)
}

async function signIn(token: string): Promise<void> {
  server?.close()
  const entered = new LiveServer(new AdminApi(token), () => {
    if (entered.problem?.status === 401) signOut(entered.problem)
    else draw()
  })
  try {
    await entered.start()
  } catch (error) {
    if (!(error instanceof AdminApiError)) throw error
    return signOut(error)
  }
  sessionStorage.setItem(TOKEN_KEY, token)
  server = entered
  draw()
}

function signOut(error: AdminApiError): void {
  server?.close()
  server = undefined
  refusal = error
  if (error.status === 401) sessionStorage.removeItem(TOKEN_KEY)
  draw()
}

function draw(): void {
  if (!rootElement) return
  const [, name = '', rest = ''] = /^#?\/?([^/]*)\/?(.*)$/.exec(location.hash.split('?')[0] ?? '') ?? []
  const view =
    name === 'plugins' && rest !== '' ? { title: decodeFragment(rest), View: PluginView } : VIEWS.get(name)
  const { title, View } = view ?? { title: 'Not found', View: UnknownView }
  document.title = `${server ? title : 'Admin token'} – wasm-serve console`
  render(
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: the fragment names the view, so following it would leave the view */}
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header class="top">
        <p class="brand">
          <img src="/console/icon.svg" alt="" width="26" height="26" /> wasm-serve
        </p>
        {server && <Navigation current={name} server={server} />}
        {server && <ServerState server={server} />}
      </header>
      <p class="notice" role="alert" hidden={!server?.problem}>
        {server?.problem?.message} The data below may be outdated. The console keeps retrying.
      </p>
      {server && <StaleNotice server={server} />}
      <main id="main" tabIndex={-1}>
        {server ? (
          <View key={visits} server={server} rest={decodeFragment(rest)} />
        ) : (
          <SignIn key={refusal} />
        )}
      </main>
    </>,
    rootElement,
  )
}

function skip(event: Event): void {
  event.preventDefault()
  focusMain()
}

function focusMain(): void {
  document.getElementById('main')?.focus({ preventScroll: true })
}

function decodeFragment(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // an invalid escape in a typed address
  }
}

interface NavigationProps {
  readonly current: string
  readonly server: LiveServer
}

/** The views: that of the fleet only if the server is one of its nodes. */
function Navigation({ current, server }: NavigationProps) {
  const isNode = server.history.last?.node !== undefined
  const shown = [...VIEWS].filter(([name]) => name !== 'fleet' || isNode)
  return (
    <nav aria-label="Console">
      {shown.map(([name, { title }]) => (
        <a key={name} href={`#/${name}`} aria-current={name === current ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  )
}

const SERVER_STATES: Readonly<Record<string, string>> = {
  starting: 'Starting',
  serving: 'Serving',
  draining: 'Shutting down',
}

/** The state of the server, and a button that pauses the numbers. */
function ServerState({ server }: { readonly server: LiveServer }) {
  const { state = '' } = server.history.last ?? {}
  const look = state === 'serving' ? 'good' : 'warn'
  const pause = () => {
    server.isPaused = !server.isPaused
    draw()
  }
  return (
    <div class="state">
      <output class={`badge ${server.problem ? 'bad' : look}`}>
        {server.problem ? 'No response' : (SERVER_STATES[state] ?? state)}
      </output>
      <button class="quiet" type="button" aria-pressed={server.isPaused} onClick={pause}>
        Pause
      </button>
    </div>
  )
}

/** What has failed, while what is served is older than its sources. */
function StaleNotice({ server }: { readonly server: LiveServer }) {
  const { behind } = server.history.last ?? {}
  if (!behind) return null
  const served = behind.plugins === undefined ? 'what is served' : behind.plugins.join(', ')
  return (
    <div class="notice" role="alert">
      <p>
        The last change failed ({behind.code}), so {served} is older than the files:
      </p>
      <pre>{behind.message}</pre>
    </div>
  )
}

function SignIn() {
  useEffect(() => document.getElementById('token')?.focus(), [])
  const submit = (event: SubmitEvent & { readonly currentTarget: HTMLFormElement }) => {
    event.preventDefault()
    void signIn(String(new FormData(event.currentTarget).get('token')).trim())
  }
  return (
    <form class="card sign-in" onSubmit={submit}>
      <h1>Admin token</h1>
      {refusal && (
        <p class="refusal" role="alert">
          {refusal.status === 401
            ? 'The server rejected this token. A restarted server generates a new token.'
            : refusal.message}
        </p>
      )}
      <LabelledInput
        id="token"
        label="Token"
        type="password"
        required
        name="token"
        aria-describedby="token-help"
        aria-invalid={refusal ? true : undefined}
      />
      <p id="token-help" class="hint">
        The server prints the token at start, unless you set it with <code>WASM_SERVE_ADMIN_TOKEN</code> or{' '}
        <code>adminToken</code>. This tab stores it until you close the tab.
      </p>
      <button class="primary" type="submit">
        Open the console
      </button>
    </form>
  )
}
