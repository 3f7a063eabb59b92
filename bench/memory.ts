import { post } from './client.ts'
import { renderMib } from './origin.ts'
import { verdict } from './report.ts'
import { ours } from './scenario.ts'
import { startServer } from './server-process.ts'
import { median } from './statistics.ts'

/** Memory of the server process in RAM: the medians of some processes. */
export interface MemoryMeasurement {
  readonly workers: number
  readonly bytes: number
}

const WORKERS = [0, 1, 2, 4]

const PROCESSES = 3

const REQUESTS = 2_000

/** Requests that are sent together, so that each thread gets some. */
const TOGETHER = 50

/** Maximum memory of a thread. */
const FLOOR_BYTES = 15 * 1_048_576

export async function measureMemory(progress: (line: string) => void): Promise<MemoryMeasurement[]> {
  const measured: MemoryMeasurement[] = []
  for (const workers of WORKERS) {
    const sizes: number[] = []
    for (let i = 0; i < PROCESSES; i++) sizes.push(await measureOnce(workers))
    const bytes = median(sizes)
    measured.push({ workers, bytes })
    progress(`${workers} workers: ${renderMib(bytes)} MiB`)
  }
  return measured
}

/** Memory of an idle server that has answered some requests. */
async function measureOnce(workers: number): Promise<number> {
  const flags = workers === 0 ? [] : ['--workers', String(workers), '--spare-workers', '0']
  const scenario = ours(`${workers} workers`, ...flags)
  const server = await startServer(scenario)
  try {
    for (let sent = 0; sent < REQUESTS; sent += TOGETHER) {
      const answers = await Promise.all(
        Array.from({ length: TOGETHER }, () => post(server.url, scenario.body)),
      )
      const wrong = answers.find(({ body }) => body !== scenario.answer(scenario.body))
      if (wrong) throw new Error(`answered with ${wrong.status} ${wrong.body}`)
    }
    await server.idle()
    return server.memoryBytes()
  } finally {
    server.stop()
  }
}

export function renderMemory(measured: readonly MemoryMeasurement[]): string {
  const without = measured.find(({ workers }) => workers === 0)?.bytes ?? Number.NaN
  const rows = measured.map(({ workers, bytes }) => {
    if (workers === 0) return `| ${workers} | ${renderMib(bytes)} | | | |`
    const each = (bytes - without) / workers
    const limit = renderMib(FLOOR_BYTES)
    return `| ${[workers, renderMib(bytes), renderMib(each), limit, verdict(each <= FLOOR_BYTES)].join(' | ')} |`
  })
  return [
    '| workers | process MiB | each MiB | limit MiB | |',
    '| ---: | ---: | ---: | ---: | --- |',
    ...rows,
  ].join('\n')
}
