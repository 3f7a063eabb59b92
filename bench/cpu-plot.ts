import type { Measurement } from './measure.ts'
import { renderNumber } from './origin.ts'
import { renderBarChart } from './plot.ts'

/**
 * A chart of the CPU time per request of each scenario at the maximum number of connections, the cheapest on top.
 *
 * @param marked - The scenario to look at.
 */
export function renderCpuPlot(measurements: readonly Measurement[], marked: string, note: string): string {
  const connections = Math.max(...measurements.map((measured) => measured.connections))
  const bars = measurements
    .filter((measured) => measured.connections === connections && measured.runs.length > 0)
    .map(({ scenario, cpuMicrosPerRequest }) => ({
      name: scenario,
      value: cpuMicrosPerRequest,
      text: renderNumber(cpuMicrosPerRequest, 1),
      isMarked: scenario === marked,
    }))
    .sort((a, b) => a.value - b.value)
  const [least = 1, most = 1] = [bars.at(0)?.value, bars.at(-1)?.value]
  return renderBarChart({
    title: 'CPU time of the server per request: less is better',
    note: `${connections} connections. ${note}`,
    axis: { label: 'microseconds', scale: most / least > LINEAR_RANGE ? 'log10' : 'linear' },
    bars,
  })
}

/** Beyond this, short bars would be indistinguishable. */
const LINEAR_RANGE = 20
