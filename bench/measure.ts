import { checkAnswers } from './answers.ts'
import { type Run, runUnderLoad } from './run.ts'
import type { Scenario, ScenarioSet } from './scenario.ts'
import { type ServerProcess, startServer } from './server-process.ts'
import { median } from './statistics.ts'

export interface Effort {
  /** Runs that count; one more warms up. */
  readonly runs: number
  readonly seconds: number
  readonly connections: readonly number[]
}

/** A scenario at a number of connections: the medians of its runs. */
export interface Measurement extends Run {
  readonly scenario: string
  readonly connections: number
  readonly runs: readonly Run[]
}

/**
 * Measures the scenarios of a set, interleaved (A B C A B C), so that a noisy minute hits all of them.
 *
 * @param progress - Told what happens, in words.
 * @throws when a server fails, or gives one wrong answer.
 */
export async function measure(
  set: ScenarioSet,
  effort: Effort,
  progress: (line: string) => void,
): Promise<Measurement[]> {
  const servers = new Map<Scenario, ServerProcess>()
  try {
    for (const scenario of set.scenarios) {
      const server = await startServer(scenario)
      servers.set(scenario, server)
      await checkAnswers(scenario, server.url)
    }
    const measurements: Measurement[] = []
    for (const connections of effort.connections) {
      measurements.push(...(await measureAt(connections, servers, effort, progress)))
    }
    return measurements
  } finally {
    for (const server of servers.values()) server.stop()
  }
}

async function measureAt(
  connections: number,
  servers: ReadonlyMap<Scenario, ServerProcess>,
  { runs, seconds }: Effort,
  progress: (line: string) => void,
): Promise<Measurement[]> {
  const measured = new Map<Scenario, Run[]>()
  for (let number = 0; number <= runs; number++) {
    for (const [scenario, server] of servers) {
      const run = await runUnderLoad(scenario, server, connections, seconds)
      if (number > 0) measured.set(scenario, [...(measured.get(scenario) ?? []), run]) // run 0 warms up
      progress(`${connections} connections, run ${number || 'to warm up'}: ${scenario.name} ${describe(run)}`)
    }
  }
  return [...measured].map(([{ name }, runs]) => ({ scenario: name, connections, ...medians(runs), runs }))
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
