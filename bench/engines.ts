import { renderCpuPlot } from './cpu-plot.ts'
import { assembleGuestFile } from './guest.ts'
import { type KillsMeasurement, measureKills, renderKills } from './kills.ts'
import { type Effort, type Measurement, measure } from './measure.ts'
import { type MemoryMeasurement, measureMemory, renderMemory } from './memory.ts'
import { renderTable } from './report.ts'
import type { ScenarioSet } from './scenario.ts'
import { largeBodies, longCalls, middleCalls, smallCalls } from './sets/engines.ts'

export interface EnginesMeasurements {
  readonly sets: readonly { readonly set: ScenarioSet; readonly measurements: readonly Measurement[] }[]
  readonly kills: readonly KillsMeasurement[]
  readonly memory: readonly MemoryMeasurement[]
}

/** Measures the cost and the benefit of threads. @throws errors of {@link measure}. */
export async function measureEngines(
  effort: Omit<Effort, 'connections'>,
  progress: (line: string) => void,
): Promise<EnginesMeasurements> {
  const moods = await assembleGuestFile('moods')
  const copy = await assembleGuestFile('copy')
  const sets: { set: ScenarioSet; measurements: Measurement[] }[] = []
  for (const set of [smallCalls, largeBodies(copy), middleCalls(moods), longCalls(moods)]) {
    const { scenarios, connections } = set
    sets.push({ set, measurements: await measure(scenarios, { ...effort, connections }, progress) })
  }
  const kills = await measureKills(moods, progress)
  const memory = await measureMemory(progress)
  return { sets, kills, memory }
}

export function renderEngines({ sets, kills, memory }: EnginesMeasurements): string {
  const tables = sets.map(({ set, measurements }) => renderTable(measurements, set))
  return [...tables, renderKills(kills), renderMemory(memory)].join('\n\n')
}

/** Of the first set. */
export function plotEngines({ sets }: EnginesMeasurements): Record<string, string> {
  const note = 'hello.wasm, a guest that does almost nothing. Medians of interleaved runs.'
  return { engines: renderCpuPlot(sets[0]?.measurements ?? [], 'inline', note) }
}
