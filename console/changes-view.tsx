import type { ChangeInfo } from './admin-api.ts'
import { useAttempt } from './form.tsx'
import { formatDate, formatTime } from './format.ts'
import type { ViewProps } from './live-server.ts'
import { usePolled } from './resources.ts'

/** Recent changes with their results, and a button that reloads the configuration. */
export function ChangesView({ server }: ViewProps) {
  const changes = usePolled<readonly ChangeInfo[]>(server, '/api/changes', 1)
  const attempt = useAttempt()
  const reload = async () => {
    try {
      const { change } = await server.api.send<{ readonly change: ChangeInfo }>('POST', '/api/reload')
      return [`Reloaded: revision ${change.revision} is live.`, ...change.warnings].join(' ')
    } finally {
      await server.refresh()
    }
  }
  return (
    <div>
      <div class="head">
        <h1>Changes</h1>
        <button type="button" onClick={() => void attempt.run(reload)}>
          Reload configuration and plug-ins
        </button>
      </div>
      {attempt.outcome()}
      <section class="card" aria-label="Recent changes">
        {changes?.length === 0 && <p class="empty">No changes since the start.</p>}
        <ol class="changes">
          {changes?.map((change) => (
            <ChangeItem key={change.at} change={change} />
          ))}
        </ol>
      </section>
    </div>
  )
}

function ChangeItem({ change }: { readonly change: ChangeInfo }) {
  const { at, reason, ok, revision, ms, warnings, error } = change
  return (
    <li>
      <time datetime={at} title={formatDate(at)}>
        {formatTime(at)}
      </time>
      <span class={`badge ${ok ? 'good' : 'bad'}`}>{ok ? 'Live' : 'Refused'}</span>
      <div class="text">
        <span>{reason}</span>
        <span class="note">
          revision {revision}, {ms} ms
        </span>
        {error && (
          <p class="why">
            {error.message} <code>{error.code}</code>
          </p>
        )}
        {warnings.map((warning) => (
          <p key={warning} class="why">
            {warning}
          </p>
        ))}
      </div>
    </li>
  )
}
