import { useState } from 'preact/hooks'
import type { LogEntry } from './admin-api.ts'
import { LabelledInput } from './form.tsx'
import { formatTime } from './format.ts'
import type { LiveServer, ViewProps } from './live-server.ts'
import { usePolled } from './resources.ts'

/** The last lines of the whole log. The rest of the address is the search text. */
export function LogView({ server, rest }: ViewProps) {
  return (
    <div>
      <h1>Server log</h1>
      <LogTable server={server} path="/api/logs" initialSearch={rest} />
    </div>
  )
}

interface LogTableProps {
  readonly server: LiveServer
  /** The path in the admin API. */
  readonly path: string
  readonly initialSearch?: string
}

/** The last lines of a log, the newest first, with a search field. */
export function LogTable({ server, path, initialSearch = '' }: LogTableProps) {
  const [search, setSearch] = useState(initialSearch)
  const all = usePolled<readonly LogEntry[]>(server, path, 2)
  const wanted = search.trim().toLowerCase()
  const lines = all?.filter((line) => JSON.stringify(line).toLowerCase().includes(wanted)).reverse() ?? []
  return (
    <section class="card">
      <div class="head">
        <h2>Log</h2>
        <LabelledInput
          id="log-search"
          label="Search"
          type="search"
          placeholder="Text or a request id"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </div>
      {all && lines.length === 0 && (
        <p class="empty">{all.length > 0 ? 'No line matches.' : 'The log is empty.'}</p>
      )}
      {lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it
        <ol class="log" tabIndex={0} aria-label="Log lines, the newest first">
          {lines.map((line) => (
            <LogItem key={JSON.stringify(line)} line={line} />
          ))}
        </ol>
      )}
    </section>
  )
}

const LEVEL_LOOKS: Readonly<Record<string, string>> = { warn: 'warn', error: 'bad', fatal: 'bad' }

function LogItem({ line }: { readonly line: LogEntry }) {
  const { level, time, msg = '', err, plugin: _, ...fields } = line
  return (
    <li>
      <time datetime={time}>{formatTime(time)}</time>
      <span class={`level ${LEVEL_LOOKS[level] ?? ''}`}>{level}</span>
      <span class="text">
        <span>{msg}</span>
        {Object.entries(fields).map(([name, value]) => (
          <span key={name} class="pair">
            {name}={typeof value === 'string' ? value : JSON.stringify(value)}
          </span>
        ))}
        {err?.stack !== undefined && <pre>{err.stack}</pre>}
      </span>
    </li>
  )
}
