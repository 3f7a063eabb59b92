import { type Bench, effortOf } from './bench.ts'
import { measure } from './measure.ts'
import { renderTable } from './report.ts'
import type { ScenarioSet } from './scenario.ts'

/** A bench that measures one set. @param minutes - How long that takes. */
export function setBench(set: ScenarioSet, minutes: number): Bench {
  return {
    name: set.name,
    minutes,
    async run(settings, progress) {
      const { effort, args } = effortOf(settings, { runs: set.runs, seconds: 5, warmUpSeconds: 3 })
      const connections = settings.connections ?? set.connections
      const measurements = await measure(set.scenarios, { ...effort, connections }, progress)
      return {
        args: `${args} --connections ${connections}`,
        markdown: renderTable(measurements, set),
        data: { measurements },
      }
    },
  }
}
