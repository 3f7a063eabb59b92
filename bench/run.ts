import autocannon from 'autocannon'
import { REQUEST_HEADERS, type Scenario } from './scenario.ts'
import type { ServerProcess } from './server-process.ts'
import { percentile } from './statistics.ts'

/** What one run under load came to. */
export interface Run {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** CPU time of the server process, in microseconds. */
  readonly cpuMicrosPerRequest: number
}

/**
 * Loads a server without counting.
 *
 * @throws when an answer was wrong, failed or lost.
 */
export async function warmUp(
  scenario: Scenario,
  server: ServerProcess,
  connections: number,
  seconds: number,
): Promise<void> {
  const { result } = await fire(scenario, server.url, connections, seconds)
  refuseFailures(scenario, result)
}

/**
 * Loads a server for some seconds, each connection sending its next request when it has its answer.
 *
 * @throws when an answer was wrong, failed or lost.
 */
export async function runUnderLoad(
  scenario: Scenario,
  server: ServerProcess,
  connections: number,
  seconds: number,
): Promise<Run> {
  await server.idle()
  const cpuBefore = server.cpuMicros()
  const { result, latencies } = await fire(scenario, server.url, connections, seconds)
  refuseFailures(scenario, result)
  await server.idle() // the last requests got no answer, but they cost as much
  return {
    requestsPerSecond: latencies.length / result.duration,
    p50Ms: percentile(latencies, 50),
    p99Ms: percentile(latencies, 99),
    cpuMicrosPerRequest: (server.cpuMicros() - cpuBefore) / result.requests.sent,
  }
}

/** Keeps its own latencies, because autocannon's histogram counts in whole milliseconds. */
async function fire({ body, answer }: Scenario, url: string, connections: number, seconds: number) {
  const latencies: number[] = []
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const options = {
      url,
      connections,
      duration: seconds,
      method: 'POST',
      headers: REQUEST_HEADERS,
      body,
      expectBody: answer(body),
      bailout: 1, // one failure is enough to refuse the run
    } as const
    const instance = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    instance.on('response', (_client, _status, _bytes, latencyMs) => latencies.push(latencyMs))
  })
  return { result, latencies }
}

function refuseFailures({ name }: Scenario, result: autocannon.Result): void {
  const { non2xx, errors, mismatches, requests, connections } = result
  // autocannon connects again without a word when a server closes a connection that waits for its answer.
  const lost = requests.sent - result['2xx'] - non2xx - connections
  if (non2xx + errors + mismatches === 0 && lost <= 0 && result['2xx'] > 0) return
  throw new Error(
    `${name}, ${connections} connections: of ${requests.sent} requests ${result['2xx']} were answered, ` +
      `${mismatches} of them wrongly; ${non2xx} failed, ${errors} met errors, ${Math.max(lost, 0)} were lost`,
  )
}
