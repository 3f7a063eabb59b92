import type { Load, LoadResult, LoadTool } from './load.ts'
import { runTool } from './run-tool.ts'

/** In C, with one thread. It does not look at bodies. */
export const wrk: LoadTool = { name: 'wrk', cores: 1, fire }

const SCRIPT = 'bench/load/wrk.lua'

async function fire(load: Load): Promise<LoadResult> {
  const { output, busySeconds } = await runTool(load, (bodyFile, contentType) => [
    'wrk',
    ['-t1', `-c${load.connections}`, `-d${load.seconds}s`, '--timeout', '10s', '-s', SCRIPT, load.url, '--'],
    [bodyFile, contentType, ...load.paths],
  ])
  const [, json] = /^RESULT (.*)$/m.exec(output) ?? []
  if (json === undefined) throw new Error(`wrk told no result: ${output}`)
  const told: Record<'requests' | 'micros' | 'refused' | 'lost' | 'p50' | 'p99' | 'p999', number> =
    JSON.parse(json)
  const seconds = told.micros / 1_000_000
  return {
    seconds,
    sent: told.requests + load.connections, // those that were cut off cost as much
    answered: told.requests,
    wrong: 0,
    refused: told.refused,
    lost: told.lost,
    p50Ms: told.p50 / 1_000,
    p99Ms: told.p99 / 1_000,
    p999Ms: told.p999 / 1_000,
    busyCores: busySeconds / seconds,
  }
}
