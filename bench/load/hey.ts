import { cpus } from 'node:os'
import { latencies } from '../statistics.ts'
import type { Load, LoadResult, LoadTool } from './load.ts'
import { runTool } from './run-tool.ts'

/** In Go. It does not look at bodies, and has one path. */
export const hey: LoadTool = { name: 'hey', cores: cpus().length, fire }

async function fire(load: Load): Promise<LoadResult> {
  const [path = '', ...more] = load.paths
  if (more.length > 0) throw new Error('hey has one path only: use another --tool')
  const { output, busySeconds } = await runTool(load, (bodyFile, contentType) => [
    'hey',
    ['-z', `${load.seconds}s`, '-c', String(load.connections), '-m', 'POST', '-t', '10', '-o', 'csv'],
    ['-T', contentType, '-D', bodyFile, new URL(path, load.url).href],
  ])
  // response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset, in seconds
  const answers = output
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.split(','))
  const times = answers.map(([seconds]) => Number(seconds) * 1_000)
  return {
    seconds: load.seconds,
    sent: answers.length,
    answered: answers.length,
    wrong: 0,
    refused: answers.filter((cells) => !cells[6]?.startsWith('2')).length,
    lost: 0, // it prints no line for those
    ...latencies(times),
    busyCores: busySeconds / load.seconds,
  }
}
