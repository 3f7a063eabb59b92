import type { Bench, Report } from './bench.ts'
import { effortOf, USUAL } from './bench.ts'
import { renderCpuPlot } from './cpu-plot.ts'
import { type Measurement, measure } from './measure.ts'
import { renderMib, renderNumber } from './origin.ts'
import { buildPeers } from './peers/build.ts'
import { ratioTo, renderRange, renderTable } from './report.ts'
import { OURS, peersSet, UNLOCKED, unlocked } from './sets/peers.ts'
import type { Settings } from './settings.ts'
import { measureUnlocked, renderUnlocked, type UnlockedRun } from './unlocked.ts'

/** The same plug-in, body and connections on other servers. */
export const peers: Bench = { name: 'peers', minutes: 10, run }

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const built = await buildPeers(progress)
  const set = peersSet(built)
  const { effort, args } = effortOf(settings, USUAL)
  const connections = settings.connections ?? set.connections
  const measurements = await measure(set.scenarios, { ...effort, connections }, progress)

  const { fiber } = built.programs
  const shared = fiber ? unlocked(fiber) : undefined
  const processes = settings.quick ? 1 : 3
  const sharedRuns = shared ? await measureUnlocked(shared, processes, effort.seconds, progress) : []

  const data = { versions: built.versions, skipped: built.skipped, measurements, unlocked: sharedRuns }

  return {
    args: `${args} --connections ${connections}`,
    markdown: renderPeers(data),
    data,
    plots: {
      peers: renderCpuPlot(
        measurements,
        OURS,
        'The same plug-in and body; "echo" has no plug-in. Medians of interleaved runs.',
      ),
    },
  }
}

export interface PeersMeasurements {
  readonly versions: readonly string[]
  readonly skipped: readonly string[]
  readonly measurements: readonly Measurement[]
  readonly unlocked: readonly UnlockedRun[]
}

export function renderPeers({ versions, skipped, measurements, unlocked }: PeersMeasurements): string {
  const isMeasured = ({ name }: { readonly name: string }) =>
    measurements.some(({ scenario }) => scenario === name)
  const all = peersSet({ programs: { fiber: 'fiber', axum: 'axum' } }) // the names are wanted, not the programs
  const set = { ...all, scenarios: all.scenarios.filter(isMeasured) }
  return [
    ...versions.map((version) => `- ${version}`),
    ...skipped.map((reason) => `- **Skipped**: ${reason}`),
    '',
    renderTable(measurements, set),
    ...(unlocked.length > 0 ? ['', renderUnlocked(UNLOCKED, unlocked)] : []),
  ].join('\n')
}

/** The bare facts, for the project's README. */
export function renderSummary(measurements: readonly Measurement[]): string {
  const ours = measurements.find(({ scenario }) => scenario === OURS)
  const rows = measurements
    .filter(({ runs, connections }) => runs.length > 0 && connections === ours?.connections)
    .toSorted((a, b) => a.cpuMicrosPerRequest - b.cpuMicrosPerRequest)
    .map((measured) => {
      const relative = ours && ratioTo(measured, ours, 'cpuMicrosPerRequest')
      const cells = [
        relative ? renderNumber(relative.median, 2) : '',
        relative && measured !== ours ? renderRange(relative) : '',
        renderNumber(measured.cpuMicrosPerRequest, 1),
        renderNumber(measured.requestsPerSecond, 0),
        renderMib(measured.memoryBytes),
      ]
      const name = measured.scenario === OURS ? `**${OURS}**` : measured.scenario
      return `| ${[name, ...cells].join(' | ')} |`
    })
  return [
    `| server | CPU per request, relative to ${OURS} | 95 % interval | CPU µs/request | requests/s | memory MiB |`,
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
  ].join('\n')
}
