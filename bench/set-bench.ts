import { type Bench, effortOf, USUAL } from './bench.ts'
import { renderCpuPlot } from './cpu-plot.ts'
import { measure } from './measure.ts'
import { renderTable } from './report.ts'
import type { ScenarioSet } from './scenario.ts'

/**
 * A bench that measures one set.
 *
 * @param marked - The scenario that its picture stresses.
 * @param minutes - How long it takes.
 */
export function setBench(set: ScenarioSet, marked: string, minutes: number): Bench {
  return {
    name: set.name,
    minutes,
    async run(settings, progress) {
      const { effort, args } = effortOf(settings, USUAL)
      const connections = settings.connections ?? set.connections
      const measurements = await measure(set.scenarios, { ...effort, connections }, progress)
      return {
        args: `${args} --connections ${connections}`,
        markdown: renderTable(measurements, set),
        data: { measurements },
        plots: {
          [set.name]: renderCpuPlot(measurements, marked, 'Medians of interleaved runs.'),
        },
      }
    },
  }
}
