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
  if (json === undefined) throw new Error(`wrk printed no result: ${output}`)
  const summary: Record<'requests' | 'micros' | 'refused' | 'lost' | 'p50' | 'p99' | 'p999', number> =
    JSON.parse(json)
  const seconds = summary.micros / 1_000_000
  return {
    seconds,
    sent: summary.requests + load.connections, // those that were cut off cost as much
    answered: summary.requests,
    wrong: 0,
    refused: summary.refused,
    lost: summary.lost,
    p50Ms: summary.p50 / 1_000,
    p99Ms: summary.p99 / 1_000,
    p999Ms: summary.p999 / 1_000,
    busyCores: busySeconds / seconds,
  }
}
