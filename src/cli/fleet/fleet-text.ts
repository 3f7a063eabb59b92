import type { FleetDifference, RouteDifference, ValueDifference } from '../../deploy/fleet/difference.ts'
import type { FleetHead, FleetRevision, SeenNode, SeenNodes } from '../../deploy/fleet/fleet-store.ts'
import { isLive } from '../../deploy/fleet/rollout.ts'
import { printable, renderTable } from '../../platform/text.ts'

/* Whoever can write to the store chooses these texts: all of them are made printable. */

/** The newest revision, its rollout, and the nodes. */
export function renderStatus(
  name: string,
  { newest, rollout }: FleetHead,
  { nodes, now }: SeenNodes,
): string {
  const { phase, nodes: canaries, until, problem } = rollout
  const canary =
    phase === 'canary'
      ? `, ${canaries.join(', ')} until ${until === undefined ? 'they serve it' : timeOf(until)}`
      : ''
  const lines = [
    name,
    `Revision ${newest.revision}, ${newest.at}, by ${newest.by}: ${newest.reason}`,
    `Rollout: ${phase} since ${timeOf(rollout.since)}${canary}`,
    ...(problem === undefined ? [] : [problem]),
  ].map(oneLine)
  const rows = nodes.map((node) => rowOf(node, now).map(oneLine))
  const table = nodes.length === 0 ? ['No node has reported.'] : renderTable([STATUS_HEAD, ...rows])
  const plugins = pluginRows(nodes.filter((node) => isLive(node, now)))
  const versions = plugins.length > 0 ? renderTable([PLUGINS_HEAD, ...plugins]) : []
  return `${[...lines, ...table, ...versions].join('\n')}\n`
}

const STATUS_HEAD = ['NODE', 'LIVE', 'REVISION', 'SINCE', 'LAST SEEN', 'REFUSES']

function rowOf(node: SeenNode, now: number): string[] {
  const { revision, since, seen, refused } = node
  const ago = `${Math.max(0, Math.round((now - seen) / 1_000))} s ago`
  const reason = refused ? `${refused.revision}: ${refused.message} (${refused.code})` : ''
  return [node.node, isLive(node, now) ? 'yes' : 'no', String(revision), since, ago, reason]
}

const PLUGINS_HEAD = ['PLUG-IN', 'DIGEST', 'NODES']

/** Maximum number of shown plug-ins. More are only in the JSON data. */
const SHOWN_PLUGINS = 50

/** The versions that nodes serve, with the number of nodes; a plug-in with several has one line each. */
function pluginRows(nodes: readonly SeenNode[]): string[][] {
  const served = nodes.flatMap(({ plugins }) => Object.entries(plugins))
  const lines = served.map(([name, digest]) => JSON.stringify([name, shortDigests(digest)]))
  return [...new Set(lines)]
    .sort()
    .slice(0, SHOWN_PLUGINS)
    .map((line) => {
      const [name, digest]: string[] = JSON.parse(line)
      const count = lines.filter((each) => each === line).length
      return [name ?? '', digest ?? '', `${count} of ${nodes.length}`].map(oneLine)
    })
}

/** The revisions that are kept, the newest first. */
export function renderHistory(revisions: readonly FleetRevision[]): string {
  const rows = revisions.map(({ revision, at, by, reason }) =>
    [String(revision), at, by, reason].map(oneLine),
  )
  return `${renderTable([['REVISION', 'TIME', 'BY', 'REASON'], ...rows]).join('\n')}\n`
}

/** What a configuration changes; nothing if it changes nothing. */
export function renderDifference({ routes, plugins, server, defaults }: FleetDifference): string {
  const lines = [
    ...section('Server options', server.map(renderValue)),
    ...section('Defaults of routes', defaults.map(renderValue)),
    ...section('Routes', routes.flatMap(renderRoute)),
    ...section('Plug-ins', plugins.map(renderDigests)),
  ]
  return lines.map((line) => `${printable(line)}\n`).join('')
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [`${title}:`, ...lines.map((line) => `  ${line}`)]
}

function renderRoute({ route, change, overridden, options }: RouteDifference): readonly string[] {
  const edited = overridden ? ' (the admin API has replaced it, and wins)' : ''
  return [`${MARKS[change]} ${route}${edited}`, ...options.map((option) => `    ${renderValue(option)}`)]
}

const MARKS = { added: '+', removed: '-', changed: '~' } as const

function renderValue({ name, before, after }: ValueDifference): string {
  if (before === undefined) return `+ ${name}: ${after}`
  if (after === undefined) return `- ${name}: ${before}`
  return `~ ${name}: ${before} -> ${after}`
}

function renderDigests({ name, before, after }: ValueDifference): string {
  return renderValue({ name, before: before && shortDigests(before), after: after && shortDigests(after) })
}

/** The digits by which people tell digests apart. */
function shortDigests(text: string): string {
  return text.replaceAll(/[\da-f]{64}/g, (digest) => digest.slice(0, 12))
}

function oneLine(text: string): string {
  const lines = text.split('\n').map((line) => line.trim())
  return printable(lines.filter((line) => line !== '').join(' '))
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
