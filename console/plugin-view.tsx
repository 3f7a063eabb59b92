import { useState } from 'preact/hooks'
import type { AdminApi, ChangeInfo, PluginInfo, ShownRoute, VersionInfo } from './admin-api.ts'
import { Figures } from './chart.tsx'
import { LabelledInput, TableHead, useAttempt } from './form.tsx'
import { formatBytes, formatCount, formatDate, formatDigest } from './format.ts'
import { addressOf, type LiveServer, MAX_WATCHED, metersOfRoutes, type ViewProps } from './live-server.ts'
import { LogTable } from './log-view.tsx'
import { usePage, useResource, useWatched } from './resources.ts'

interface PartProps {
  readonly server: LiveServer
  readonly plugin: PluginInfo
}

/** One plug-in by name: its figures, versions, functions, imports and log. */
export function PluginView({ server, rest: name }: ViewProps) {
  const path = `/api/plugins/${encodeURIComponent(name)}`
  const plugin = useResource<PluginInfo>(server, path)
  return (
    <div>
      <p class="back">
        <a href="#/plugins">Plug-ins</a>
      </p>
      <h1>{name}</h1>
      {plugin && <PluginParts plugin={plugin} server={server} path={path} />}
      {plugin === null && <p class="empty">No plug-in has this name.</p>}
    </div>
  )
}

function PluginParts({ plugin, server, path }: PartProps & { readonly path: string }) {
  const query = new URLSearchParams({ plugin: plugin.name, limit: String(MAX_WATCHED) })
  const { items: routes = [], total = 0 } = usePage<ShownRoute>(server, `/api/routes?${query}`) ?? {}
  useWatched(server, routes)
  return (
    <div>
      <Figures
        label="Current metrics"
        history={server.history}
        filter={metersOfRoutes(routes)}
        memory="bytes"
        notes={({ waiting }) => [`${waiting} waiting`, '', 'guests']}
      />
      {total > routes.length && (
        <p class="hint">
          Metrics and links cover {routes.length} of {formatCount(total)} routes.
        </p>
      )}
      <Versions plugin={plugin} server={server} />
      <div class="columns">
        <Exports plugin={plugin} routes={routes} />
        <Imports plugin={plugin} />
      </div>
      <LogTable server={server} path={`${path}/logs`} />
    </div>
  )
}

const VERSION_COLUMNS = ['Version', 'Added', 'From', 'Size', 'Calls', 'Change']

/** The request's path follows that of the plug-in. */
type ChangeVersions = (request: VersionAction['request'], success: string) => void

/** The versions of a plug-in, with actions that change how calls are split between them. */
function Versions({ plugin, server }: PartProps) {
  const attempt = useAttempt()
  const change: ChangeVersions = ([method, path, body], success) =>
    void attempt.run(async () => {
      const url = `/api/plugins/${encodeURIComponent(plugin.name)}${path}`
      const answer = await server.api.send<{ readonly change: ChangeInfo }>(method, url, body)
      await server.refresh()
      const { revision, ms, warnings } = answer.change
      return [`${success} (revision ${revision}, ${ms} ms)`, ...warnings].join(' ')
    })
  const upload = (event: SubmitEvent & { readonly currentTarget: HTMLFormElement }) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const module = form.get('module')
    if (!(module instanceof File)) return
    if (form.has('live')) change(['PUT', '', module], `${module.name} gets all calls.`)
    else change(['PUT', '?live=false', module], `${module.name} was added and gets no calls yet.`)
  }
  return (
    <section class="card" aria-busy={attempt.isBusy}>
      <h2>Versions</h2>
      <table>
        <caption class="unseen">Versions, the newest first</caption>
        <TableHead names={VERSION_COLUMNS} />
        <tbody>
          {plugin.versions.map((version) => (
            <VersionRow key={version.digest} plugin={plugin} version={version} change={change} />
          ))}
        </tbody>
      </table>
      <form class="form inline" onSubmit={upload}>
        <LabelledInput
          id="version-file"
          label="New version (.wasm)"
          name="module"
          type="file"
          accept=".wasm,application/wasm"
          required
        />
        <div class="check">
          <input id="version-live" name="live" type="checkbox" defaultChecked />
          <label for="version-live">Send all calls to it immediately</label>
        </div>
        <button class="primary" type="submit">
          Upload
        </button>
      </form>
      {attempt.outcome()}
    </section>
  )
}

interface VersionRowProps {
  readonly plugin: PluginInfo
  readonly version: VersionInfo
  readonly change: ChangeVersions
}

function VersionRow({ plugin, version, change }: VersionRowProps) {
  const { digest, addedAt, from, origin, signer, bytes, percent, configured, calls, failures } = version
  const isSplit = percent > 0 && percent < 100
  const [share, setShare] = useState(10)
  const actions = actionsFor(version, plugin.versions, share)
  return (
    <tr>
      <th scope="row">
        <code title={digest}>{formatDigest(digest)}</code>
        {configured && <span class="note">from the configuration</span>}
      </th>
      <td data-label="Added">{formatDate(addedAt)}</td>
      <td data-label="From">
        {origin === undefined ? from : <code class="origin">{origin}</code>}
        {signer !== undefined && <span class="note">signed by {signer}</span>}
      </td>
      <td data-label="Size" class="number">
        {formatBytes(bytes)}
      </td>
      <td data-label="Calls">
        {percent > 0 ? (
          <span class={`badge ${isSplit ? 'warn' : 'good'}`}>{isSplit ? `${percent} %` : 'All calls'}</span>
        ) : (
          <span class="note">none</span>
        )}
        {isSplit && (
          <span class="note">
            {calls} calls, {failures} failed
          </span>
        )}
      </td>
      <td data-label="Change">
        <div class="actions">
          {percent === 100 && <span class="note">–</span>}
          {actions.some(({ hasShare }) => hasShare) && (
            <input
              class="share"
              type="number"
              min={1}
              max={99}
              aria-label={`Percent of the calls for version ${formatDigest(digest)}`}
              value={share}
              onInput={({ currentTarget: { valueAsNumber } }) => setShare(valueAsNumber)}
            />
          )}
          {actions.map(({ text, rest, question, request, success }) => (
            <button
              key={text}
              type="button"
              onClick={() => (question === undefined || confirm(question)) && change(request, success)}
            >
              {text}
              <span class="unseen"> {rest}</span>
            </button>
          ))}
        </div>
      </td>
    </tr>
  )
}

/** A button that changes the split of calls. */
interface VersionAction {
  readonly text: string
  /** Whether the user chooses the share of the calls. */
  readonly hasShare?: true
  /** What the user has to confirm, if it cannot be undone. */
  readonly question?: string
  /** Text for screen readers, after the label. */
  readonly rest: string
  readonly request: Parameters<AdminApi['send']>
  /** The result as text. */
  readonly success: string
}

/** @param share - The percentage that the user has chosen. */
function actionsFor(
  { digest, percent }: VersionInfo,
  versions: readonly VersionInfo[],
  share: number,
): VersionAction[] {
  if (percent === 100) return []
  const short = formatDigest(digest)
  const digests = versions.map((version) => version.digest)
  const [live = ''] = versions.toSorted((a, b) => b.percent - a.percent).map((version) => version.digest)
  const isOlder = digests.indexOf(digest) > digests.indexOf(live)
  const shares = [
    { digest: live, percent: 100 - share },
    { digest, percent: share },
  ]
  const all: VersionAction = {
    text: isOlder ? 'Roll back' : 'Send all calls',
    rest: `to version ${short}`,
    request: ['POST', '/rollback', { digest }],
    success: `Version ${short} gets all calls.`,
  }
  const some: VersionAction = {
    text: `Try with ${share} %`,
    hasShare: true,
    rest: `of the calls: version ${short}`,
    request: ['PUT', '/traffic', shares],
    success: `Version ${short} gets ${share} of 100 calls.`,
  }
  const none: VersionAction = {
    text: 'Remove',
    question: `Remove version ${short}? Its bytes are deleted.`,
    rest: `version ${short}`,
    request: ['DELETE', `/versions/${digest}`],
    success: `Version ${short} was removed.`,
  }
  if (percent === 0) return [all, some, none]
  return digest === live ? [all] : [all, some]
}

function Exports({ plugin, routes }: Pick<PartProps, 'plugin'> & { readonly routes: readonly ShownRoute[] }) {
  return (
    <section class="card">
      <h2>Exports</h2>
      {plugin.exports.length === 0 && <p class="empty">There are no callable functions.</p>}
      <ul class="plain">
        {plugin.exports.map((name) => {
          const own = routes.filter((route) => route.function === name)
          return (
            <li key={name}>
              <code>{name}</code>{' '}
              {own.map((route) => (
                <a key={route.id} class="tag" href={`#/call/${route.id}`}>
                  Call {addressOf(route)}
                </a>
              ))}
              {own.length === 0 && <span class="note">no route</span>}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

function Imports({ plugin: { imports } }: Pick<PartProps, 'plugin'>) {
  const modules = [...new Set(imports.map(({ module }) => module))]
  return (
    <section class="card">
      <h2>Imports</h2>
      {modules.length === 0 && <p class="empty">The plug-in has no imports.</p>}
      {modules.map((module) => (
        <div key={module}>
          <h3>{module}</h3>
          <p class="names">
            {imports
              .filter((one) => one.module === module)
              .map(({ name }) => (
                <code key={name}>{name}</code>
              ))}
          </p>
        </div>
      ))}
    </section>
  )
}
