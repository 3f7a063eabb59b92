import type { FleetInfo, FleetNodeInfo, FleetRevision, FleetRollout } from './admin-api.ts'
import { TableHead, useAttempt } from './form.tsx'
import { formatDate, formatDigest, formatTime } from './format.ts'
import type { ViewProps } from './live-server.ts'
import { usePolled } from './resources.ts'

/** The fleet: its newest revision, its nodes, and its history with a way back. */
export function FleetView({ server }: ViewProps) {
  const fleet = usePolled<FleetInfo>(server, '/api/fleet', 1)
  const attempt = useAttempt()
  const rollBack = async (wanted: number) => {
    const { revision } = await server.api.send<FleetRevision>('POST', '/api/fleet/rollback', {
      revision: wanted,
    })
    await server.refresh()
    return `Revision ${revision} is stored. It restores revision ${wanted}.`
  }
  const { name, newest, rollout, revisions = [], nodes = [] } = fleet ?? {}
  return (
    <div>
      <div class="head">
        <h1>Fleet</h1>
        {name !== undefined && <span class="note">{name}</span>}
      </div>
      {fleet?.connected === false && (
        <p class="refusal" role="alert">
          The store cannot be reached. This node keeps serving. The data below may be outdated.
        </p>
      )}
      {attempt.outcome()}
      {fleet && name === undefined && (
        <p class="empty">
          This server is not a node of a fleet. Start it with <code>--fleet</code> to join one.
        </p>
      )}
      {newest && rollout && <Newest revision={newest} rollout={rollout} />}
      {nodes.length > 0 && (
        <section class="card" aria-label="Nodes">
          <table>
            <caption class="unseen">Nodes, by name</caption>
            <TableHead names={NODE_COLUMNS} />
            <tbody>
              {nodes.map((node) => (
                <NodeRow
                  key={node.node}
                  node={node}
                  newest={newest?.revision}
                  isHere={node.node === fleet?.node}
                />
              ))}
            </tbody>
          </table>
        </section>
      )}
      {revisions.length > 0 && (
        <section class="card" aria-label="History" aria-busy={attempt.isBusy}>
          <table>
            <caption class="unseen">Revisions, the newest first</caption>
            <TableHead names={HISTORY_COLUMNS} />
            <tbody>
              {revisions.map((each) => (
                <HistoryRow
                  key={each.revision}
                  revision={each}
                  isNewest={each.revision === newest?.revision}
                  onRollBack={() => void attempt.run(() => rollBack(each.revision))}
                />
              ))}
            </tbody>
          </table>
        </section>
      )}
    </div>
  )
}

const NODE_COLUMNS = ['Node', 'State', 'Revision', 'Since', 'Plug-ins', 'Last seen']

const HISTORY_COLUMNS = ['Revision', 'Time', 'By', 'Reason', 'Action']

const PHASES: Readonly<Record<FleetRollout['phase'], readonly [text: string, look: string]>> = {
  canary: ['Canary', 'warn'],
  all: ['Rolling out', 'warn'],
  done: ['Rolled out', 'good'],
  stopped: ['Stopped', 'bad'],
}

interface NewestProps {
  readonly revision: FleetRevision
  readonly rollout: FleetRollout
}

function Newest({ revision: { revision, at, by, reason }, rollout }: NewestProps) {
  const { phase, nodes, until, problem } = rollout
  const [text, look] = PHASES[phase]
  return (
    <section class="card" aria-label="Newest revision">
      <p>
        Revision <strong>{revision}</strong> <span class={`badge ${look}`}>{text}</span>{' '}
        <span class="note">
          {reason}, by {by}, {formatDate(at)}
        </span>
      </p>
      {phase === 'canary' && (
        <p>
          Only on {nodes.join(', ')}
          {until !== undefined && ` until ${formatTime(until)}`}.
        </p>
      )}
      {problem !== undefined && <p class="why">{problem}</p>}
    </section>
  )
}

interface NodeRowProps {
  readonly node: FleetNodeInfo
  readonly newest: number | undefined
  /** Whether it is the server of this page. */
  readonly isHere: boolean
}

function NodeRow({ node: shown, newest, isHere }: NodeRowProps) {
  const { node, live, revision, since, refused, version, plugins, pluginCount, lastSeen } = shown
  const [text, look] = stateOf(shown, newest)
  const digests = Object.entries(plugins)
  const more = pluginCount - digests.length
  return (
    <tr>
      <th scope="row">
        {node} <span class="note">{isHere ? `${version}, this server` : version}</span>
      </th>
      <td data-label="State">
        <span class={`badge ${look}`}>{text}</span>
        {live && refused && (
          <p class="why">
            Revision {refused.revision}: {refused.message} <code>{refused.code}</code>
          </p>
        )}
      </td>
      <td data-label="Revision">{revision}</td>
      <td data-label="Since">
        <ClockTime at={since} />
      </td>
      <td data-label="Plug-ins">
        {digests.map(([name, digest]) => (
          <div key={name}>
            {name} <code title={digest}>{formatDigest(digest)}</code>
          </div>
        ))}
        {more > 0 && <span class="note">and {more} more</span>}
      </td>
      <td data-label="Last seen">
        <ClockTime at={lastSeen} />
      </td>
    </tr>
  )
}

function ClockTime({ at }: { readonly at: string }) {
  return (
    <time datetime={at} title={formatDate(at)}>
      {formatTime(at)}
    </time>
  )
}

function stateOf(
  { live, refused, revision }: FleetNodeInfo,
  newest: number | undefined,
): readonly [text: string, look: string] {
  if (!live) return ['Lost', 'bad']
  if (refused) return ['Refused', 'bad']
  return revision === newest ? ['Serving', 'good'] : ['Behind', 'warn']
}

interface HistoryRowProps {
  readonly revision: FleetRevision
  readonly isNewest: boolean
  readonly onRollBack: () => void
}

function HistoryRow({ revision: { revision, at, by, reason }, isNewest, onRollBack }: HistoryRowProps) {
  return (
    <tr>
      <th scope="row">{revision}</th>
      <td data-label="Time">{formatDate(at)}</td>
      <td data-label="By">{by}</td>
      <td data-label="Reason">{reason}</td>
      <td data-label="Action">
        {isNewest ? (
          <span class="note">Newest</span>
        ) : (
          <button type="button" onClick={onRollBack}>
            Roll back to {revision}
          </button>
        )}
      </td>
    </tr>
  )
}
