import { checkAnswers } from './answers.ts'
import type { LoadTool } from './load/load.ts'
import { type Run, runUnderLoad, warmUp } from './run.ts'
import type { Scenario } from './scenario.ts'
import { startServer } from './server-process.ts'
import { median } from './statistics.ts'

export interface Effort {
  readonly tool: LoadTool
  readonly runs: number
  readonly seconds: number
  /** Warm-up time before a run is counted, in which V8 optimizes. */
  readonly warmUpSeconds: number
  readonly connections: readonly number[]
}

/** A scenario at a number of connections: the medians of its runs, and how many requests were answered or failed in all. */
export interface Measurement extends Run {
  readonly scenario: string
  readonly connections: number
  /** The runs that completed. */
  readonly runs: readonly NumberedRun[]
  /** Why the others did not: only where the scenario may fail. */
  readonly broken: readonly string[]
}

export interface NumberedRun extends Run {
  /** Runs of the same number were made one after the other. */
  readonly number: number
}

/**
 * Measures scenarios, interleaved (A B C A B C), so that a noisy minute affects all of them. Each run has its own
 * server process, because V8 optimizes each process a little differently.
 *
 * @param progress - Receives progress messages.
 * @throws when a server fails, or gives one wrong answer.
 */
export async function measure(
  scenarios: readonly Scenario[],
  effort: Effort,
  progress: (line: string) => void,
): Promise<Measurement[]> {
  const measurements: Measurement[] = []
  for (const connections of effort.connections) {
    measurements.push(...(await measureAt(connections, scenarios, effort, progress)))
  }
  return measurements
}

async function measureAt(
  connections: number,
  scenarios: readonly Scenario[],
  effort: Effort,
  progress: (line: string) => void,
): Promise<Measurement[]> {
  const measured = scenarios.map((scenario) => ({
    scenario,
    runs: [] as NumberedRun[],
    broken: [] as string[],
  }))
  for (let number = 1; number <= effort.runs; number++) {
    for (const { scenario, runs, broken } of measured) {
      const title = `${connections} connections, run ${number}: ${scenario.name}`
      try {
        const run = await measureOnce(scenario, connections, effort)
        runs.push({ number, ...run })
        progress(`${title} ${describe(run)}`)
      } catch (error) {
        if (!scenario.mayFail) throw error
        broken.push(error instanceof Error ? error.message : String(error))
        progress(`${title} failed: ${broken.at(-1)}`)
      }
    }
  }
  return measured.map(({ scenario, runs, broken }) => ({
    scenario: scenario.name,
    connections,
    ...medians(runs),
    runs,
    broken,
  }))
}

async function measureOnce(
  scenario: Scenario,
  connections: number,
  { tool, seconds, warmUpSeconds }: Effort,
): Promise<Run> {
  const server = await startServer(scenario)
  try {
    await warmUp(scenario, server, { tool, connections, seconds: warmUpSeconds })
    const lasting = Math.max(seconds, scenario.leastSeconds ?? 0)
    const run = await runUnderLoad(scenario, server, { tool, connections, seconds: lasting })
    // Not before: these requests are others, and V8 would optimize for them too.
    const wrong = await checkAnswers(scenario, server.url)
    return { ...run, failed: run.failed + wrong }
  } finally {
    server.stop()
  }
}

function describe({ requestsPerSecond, cpuMicrosPerRequest }: Run): string {
  return `${Math.round(requestsPerSecond)} requests/s, ${cpuMicrosPerRequest.toFixed(1)} us CPU`
}

/** The median of each figure, on its own. */
export function medians(runs: readonly Run[]): Run {
  const of = (key: keyof Run) => median(runs.map((run) => run[key]))
  return {
    requestsPerSecond: of('requestsPerSecond'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    p999Ms: of('p999Ms'),
    cpuMicrosPerRequest: of('cpuMicrosPerRequest'),
    memoryBytes: of('memoryBytes'),
    answered: runs.reduce((sum, { answered }) => sum + answered, 0),
    failed: runs.reduce((sum, { failed }) => sum + failed, 0),
    generatorLoad: of('generatorLoad'),
  }
}
