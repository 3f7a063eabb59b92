import type { Bench, Report } from './bench.ts'
import { effortOf } from './bench.ts'
import { type Measurement, measure } from './measure.ts'
import { renderNumber } from './origin.ts'
import { buildPeers } from './peers/build.ts'
import { renderBarChart } from './plot.ts'
import { renderTable } from './report.ts'
import { OURS, peersSet, unlocked } from './sets/peers.ts'
import type { Settings } from './settings.ts'
import { measureUnlocked, renderUnlocked } from './unlocked.ts'

/** The same plug-in, body and connections on other servers. */
export const peers: Bench = { name: 'peers', minutes: 5, run }

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const built = await buildPeers(progress)
  const set = peersSet(built)
  const { effort, args } = effortOf(settings, { runs: set.runs, seconds: 2, warmUpSeconds: 1 })
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
    plots: { peers: plot(measurements, connections[0] ?? 0) },
  }
}

function plot(measurements: readonly Measurement[], connections: number): string {
  const bars = measurements
    .filter((measured) => measured.connections === connections && measured.runs.length > 0)
    .map(({ scenario, cpuMicrosPerRequest }) => ({
      name: scenario,
      value: cpuMicrosPerRequest,
      text: renderNumber(cpuMicrosPerRequest, 1),
      isMarked: scenario === OURS,
    }))
    .sort((a, b) => a.value - b.value)
  return renderBarChart({
    title: 'CPU time of the server per request: less is better',
    note: `${connections} connections, the same plug-in and body; "echo" has no plug-in. Medians of interleaved runs.`,
    axis: { label: 'microseconds', scale: 'log10' },
    bars,
  })
}
