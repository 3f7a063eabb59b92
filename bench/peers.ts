import type { Bench, Report } from './bench.ts'
import { effortOf } from './bench.ts'
import { renderCpuPlot } from './cpu-plot.ts'
import { type Measurement, measure } from './measure.ts'
import { renderMib, renderNumber } from './origin.ts'
import { buildPeers } from './peers/build.ts'
import { ratio, renderTable } from './report.ts'
import { OURS, peersSet, unlocked } from './sets/peers.ts'
import type { Settings } from './settings.ts'
import { measureUnlocked, renderUnlocked } from './unlocked.ts'

/** The same plug-in, body and connections on other servers. */
export const peers: Bench = { name: 'peers', minutes: 12, run }

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const built = await buildPeers(progress)
  const set = peersSet(built)
  const { effort, args } = effortOf(settings, { runs: set.runs, seconds: 2, warmUpSeconds: 2 })
  const connections = settings.connections ?? set.connections
  const measurements = await measure(set.scenarios, { ...effort, connections }, progress)

  const { fiber } = built.programs
  const shared = fiber ? unlocked(fiber) : undefined
  const processes = settings.quick ? 1 : 3
  const sharedRuns = shared ? await measureUnlocked(shared, processes, effort.seconds, progress) : []

  return {
    args: `${args} --connections ${connections}`,
    markdown: [
      ...built.versions.map((versions) => `- ${versions}`),
      ...built.skipped.map((reason) => `- **Skipped**: ${reason}`),
      '',
      renderTable(measurements, set),
      ...(shared ? ['', renderUnlocked(shared, sharedRuns)] : []),
    ].join('\n'),
    data: { versions: built.versions, skipped: built.skipped, measurements, unlocked: sharedRuns },
    plots: {
      peers: renderCpuPlot(
        measurements,
        OURS,
        'The same plug-in and body; "echo" has no plug-in. Medians of interleaved runs.',
      ),
    },
    summary: renderSummary(measurements),
  }
}

/** The bare facts, for the project's README. */
function renderSummary(measurements: readonly Measurement[]): string {
  const ours = measurements.find(({ scenario }) => scenario === OURS)
  const rows = measurements
    .filter(({ runs, connections }) => runs.length > 0 && connections === ours?.connections)
    .toSorted((a, b) => a.cpuMicrosPerRequest - b.cpuMicrosPerRequest)
    .map((measured) => {
      const cells = [
        renderNumber(measured.cpuMicrosPerRequest, 1),
        ours ? renderNumber(ratio(measured, ours, 'cpuMicrosPerRequest'), 2) : '',
        renderNumber(measured.requestsPerSecond, 0),
        renderNumber(measured.p99Ms, 1),
        renderMib(measured.memoryBytes),
      ]
      const name = measured.scenario === OURS ? `**${OURS}**` : measured.scenario
      return `| ${[name, ...cells].join(' | ')} |`
    })
  return [
    `| server | CPU µs/request | relative to ${OURS} | requests/s | p99 ms | memory MiB |`,
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
  ].join('\n')
}
