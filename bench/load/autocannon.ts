import cannon from 'autocannon'
import { latencies } from '../statistics.ts'
import type { Load, LoadResult, LoadTool } from './load.ts'

/** In this process. It compares every body. */
export const autocannon: LoadTool = { name: 'autocannon', cores: 1, fire }

/** Keeps its own latencies, because autocannon's histogram counts in whole milliseconds. */
async function fire(load: Load): Promise<LoadResult> {
  const times: number[] = []
  const before = process.cpuUsage()
  const result = await new Promise<cannon.Result>((resolve, reject) => {
    const options: cannon.Options = {
      url: load.url,
      requests: load.paths.map((path) => ({ path })),
      connections: load.connections,
      duration: load.seconds,
      method: 'POST',
      headers: load.headers,
      body: load.body,
      verifyBody: (body) => load.isRight(String(body)),
      ...(load.isStrict && { bailout: 1 }),
    }
    const instance = cannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    instance.on('response', (_client, _status, _bytes, latencyMs) => times.push(latencyMs))
  })
  const { user, system } = process.cpuUsage(before)
  const { non2xx, errors, mismatches, requests, duration } = result
  // autocannon connects again without a word when a server closes a connection that waits for its answer.
  const unanswered = requests.sent - result['2xx'] - non2xx - load.connections
  return {
    seconds: duration,
    sent: requests.sent,
    answered: times.length,
    wrong: mismatches,
    refused: non2xx,
    lost: Math.max(errors, unanswered, 0),
    ...latencies(times),
    busyCores: (user + system) / 1_000_000 / duration,
  }
}
