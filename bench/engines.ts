import { renderCpuPlot } from './cpu-plot.ts'
import { assembleGuestFile } from './guest.ts'
import { type KillsMeasurement, measureKills, renderKills } from './kills.ts'
import { type Effort, type Measurement, measure } from './measure.ts'
import { type MemoryMeasurement, measureMemory, renderMemory } from './memory.ts'
import { renderTable } from './report.ts'
import type { ScenarioSet } from './scenario.ts'
import { largeBodies, longCalls, middleCalls, smallCalls } from './sets/engines.ts'

export interface EnginesMeasurements {
  readonly sets: readonly { readonly measurements: readonly Measurement[] }[]
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
  const sets: { measurements: Measurement[] }[] = []
  for (const set of setsOf({ moods, copy })) {
    const { scenarios, connections } = set
    sets.push({ measurements: await measure(scenarios, { ...effort, connections }, progress) })
  }
  const kills = await measureKills(moods, progress)
  const memory = await measureMemory(progress)
  return { sets, kills, memory }
}

export function renderEngines({ sets, kills, memory }: EnginesMeasurements): string {
  const tables = sets.map(({ measurements }) => renderTable(measurements, setOf(measurements)))
  return [...tables, renderKills(kills), renderMemory(memory)].join('\n\n')
}

/** The set with today's limits. */
function setOf([first]: readonly Measurement[]): ScenarioSet {
  const found = setsOf({ moods: '', copy: '' }).find(
    ({ scenarios }) => scenarios[0]?.name === first?.scenario,
  )
  if (found) return found
  throw new Error(`there is no set that begins with ${first?.scenario}`)
}

function setsOf({ moods, copy }: { readonly moods: string; readonly copy: string }): readonly ScenarioSet[] {
  return [smallCalls, largeBodies(copy), middleCalls(moods), longCalls(moods)]
}

/** Plots the first set. */
export function plotEngines({ sets }: EnginesMeasurements): Record<string, string> {
  const note = 'hello.wasm, a guest that does almost nothing. Medians of interleaved runs.'
  return { engines: renderCpuPlot(sets[0]?.measurements ?? [], 'inline', note) }
}
