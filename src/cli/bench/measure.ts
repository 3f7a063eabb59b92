import type { Host } from '../command.ts'
import { shellWord } from '../render.ts'
import { applyLoad, type LoadResult, type loadAutocannon } from './load.ts'
import { startMeasuredServer } from './measured-server.ts'
import { askReference } from './reference.ts'

/** How hard and how long. */
export interface Effort {
  readonly connections: number
  readonly seconds: number
}

/** What was measured of one way to serve. */
export interface Measurement extends LoadResult {
  /** What the answers were compared with, for people. */
  readonly compared: string
  /** CPU time of the server process for each request, in microseconds. */
  readonly cpuMicrosPerRequest: number
}

/** Seconds of load that do not count: the compiler works, connections open. */
export function warmUpSeconds({ seconds }: Effort): number {
  return Math.min(seconds, 1)
}

/**
 * Serves a plug-in in a process of its own and loads it from this one.
 *
 * @param words - Of the command line of `serve`.
 * @throws {@link BenchServerError} if it does not start, or does not answer this input.
 */
export async function measure(
  cannon: Awaited<ReturnType<typeof loadAutocannon>>,
  words: readonly string[],
  input: Uint8Array,
  effort: Effort,
  host: Host,
): Promise<Measurement> {
  const server = await startMeasuredServer(words, host)
  try {
    const { url } = server
    const { connections, seconds } = effort
    const reference = await askReference(url, input, words.map(shellWord).join(' '))
    await applyLoad(cannon, { url, input, connections, seconds: warmUpSeconds(effort) }, reference)
    await server.idle()
    const before = await server.cpuMicros()
    const result = await applyLoad(cannon, { url, input, connections, seconds }, reference)
    await server.idle()
    const cpu = (await server.cpuMicros()) - before
    return { ...result, compared: reference.compared, cpuMicrosPerRequest: cpu / result.sent }
  } finally {
    await server.stop()
  }
}
