import { checkAnswers } from './answers.ts'
import { type Run, runUnderLoad, warmUp } from './run.ts'
import type { Scenario } from './scenario.ts'
import { startServer } from './server-process.ts'
import { median } from './statistics.ts'

export interface Effort {
  readonly runs: number
  readonly seconds: number
  /** How long a server is under load before its run is counted: V8 optimizes what has run often. */
  readonly warmUpSeconds: number
  readonly connections: readonly number[]
}

/** A scenario at a number of connections: the medians of its runs. */
export interface Measurement extends Run {
  readonly scenario: string
  readonly connections: number
  readonly runs: readonly Run[]
}

/**
 * Measures scenarios, interleaved (A B C A B C), so that a noisy minute hits all of them. Each run has a server process
 * of its own, because V8 optimizes each a little differently.
 *
 * @param progress - Told what happens, in words.
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
  const measured = new Map<Scenario, Run[]>(scenarios.map((scenario) => [scenario, []]))
  for (let number = 1; number <= effort.runs; number++) {
    for (const [scenario, runs] of measured) {
      const run = await measureOnce(scenario, connections, effort)
      runs.push(run)
      progress(`${connections} connections, run ${number}: ${scenario.name} ${describe(run)}`)
    }
  }
  return [...measured].map(([{ name }, runs]) => ({ scenario: name, connections, ...medians(runs), runs }))
}

async function measureOnce(
  scenario: Scenario,
  connections: number,
  { seconds, warmUpSeconds }: Effort,
): Promise<Run> {
  const server = await startServer(scenario)
  try {
    await warmUp(scenario, server, connections, warmUpSeconds)
    const run = await runUnderLoad(scenario, server, connections, seconds)
    await checkAnswers(scenario, server.url) // not before: its requests are others, and V8 would optimize for them too
    return run
  } finally {
    server.stop()
  }
}

function describe({ requestsPerSecond, cpuMicrosPerRequest }: Run): string {
  return `${Math.round(requestsPerSecond)} requests/s, ${cpuMicrosPerRequest.toFixed(1)} us CPU`
}

function medians(runs: readonly Run[]): Run {
  const of = (key: keyof Run) => median(runs.map((run) => run[key]))
  return {
    requestsPerSecond: of('requestsPerSecond'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    cpuMicrosPerRequest: of('cpuMicrosPerRequest'),
  }
}
