import type { ProcessEntry } from './admin-api.ts'
import { TableHead, useAttempt } from './form.tsx'
import { formatBytes, formatCount } from './format.ts'
import type { ViewProps } from './live-server.ts'
import { usePolled } from './resources.ts'

const COLUMNS = ['Process', 'State', 'Serving', 'Revision', 'Memory', 'Connections', 'Lost']

const STATES: Readonly<Record<ProcessEntry['state'], readonly [text: string, look: string]>> = {
  starting: ['Starting', 'warn'],
  serving: ['Serving', 'good'],
  silent: ['Silent', 'bad'],
  waiting: ['Ended', 'bad'],
}

/** The serving processes, and a button that replaces them one after another. */
export function ProcessesView({ server }: ViewProps) {
  const processes = usePolled<readonly ProcessEntry[]>(server, '/api/processes', 1)
  const attempt = useAttempt()
  const restart = async () => {
    await server.api.send('POST', '/api/restart')
    await server.refresh()
    return 'All processes were replaced.'
  }
  const isOne = processes?.length === 0
  return (
    <div>
      <div class="head">
        <h1>Processes</h1>
        <button type="button" disabled={isOne} onClick={() => void attempt.run(restart)}>
          Replace all, one after another
        </button>
      </div>
      {attempt.outcome()}
      <section class="card" aria-label="Serving processes" aria-busy={attempt.isBusy}>
        {isOne && (
          <p class="empty">
            This server is one process. Start it with <code>--processes</code> for several.
          </p>
        )}
        {processes && !isOne && (
          <table>
            <caption class="unseen">Serving processes, by number</caption>
            <TableHead names={COLUMNS} />
            <tbody>
              {processes.map((each) => (
                <ProcessRow key={each.number} process={each} />
              ))}
            </tbody>
          </table>
        )}
      </section>
    </div>
  )
}

function ProcessRow({ process }: { readonly process: ProcessEntry }) {
  const { number, pid, state, servingMs, revision, memoryBytes, connections, lost, lastEnd } = process
  const [text, look] = STATES[state]
  return (
    <tr>
      <th scope="row">
        {number} {pid !== undefined && <span class="note">pid {pid}</span>}
      </th>
      <td data-label="State">
        <span class={`badge ${look}`}>{text}</span>
      </td>
      <td data-label="Serving">{servingMs === undefined ? '–' : `${Math.floor(servingMs / 1_000)} s`}</td>
      <td data-label="Revision">{revision ?? '–'}</td>
      <td data-label="Memory">{memoryBytes === undefined ? '–' : formatBytes(memoryBytes)}</td>
      <td data-label="Connections">{formatCount(connections)}</td>
      <td data-label="Lost">
        {formatCount(lost)} {lastEnd !== undefined && <span class="note">{lastEnd}</span>}
      </td>
    </tr>
  )
}
