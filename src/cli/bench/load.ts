import type autocannon from 'autocannon'
import { PackageMissingError } from '../../errors/errors.ts'
import { Latencies } from './latencies.ts'
import type { Reference } from './reference.ts'

/** What a server was asked, and for how long. */
export interface Load {
  readonly url: string
  readonly input: Uint8Array
  readonly connections: number
  readonly seconds: number
}

/** What came of it. */
export interface LoadResult {
  readonly latencies: Latencies
  /** How long it took, in seconds. */
  readonly seconds: number
  /** Requests that were sent; those under way when it ended were not answered. */
  readonly sent: number
  readonly answered: number
  readonly wrong: number
  /** Answers with another status than 2xx. */
  readonly failed: number
  /** Connections that broke, and answers that took longer than 10 s. */
  readonly errors: number
}

/** How often autocannon looks whether the time is up. */
const TICK_MS = 50

type Autocannon = typeof autocannon

/**
 * Loads autocannon, an optional peer.
 *
 * @throws {@link PackageMissingError} with the line that helps.
 */
export async function loadAutocannon(): Promise<Autocannon> {
  try {
    return (await import('autocannon')).default
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new PackageMissingError(
      'autocannon',
      'wasm-serve bench',
      'run npm install autocannon, or: npx -y -p autocannon -p wasm-serve wasm-serve bench ...',
    )
  }
}

/** Loads a server: each connection sends its next request when it has its answer. */
export async function applyLoad(
  cannon: Autocannon,
  { url, input, connections, seconds }: Load,
  { isRight }: Reference,
): Promise<LoadResult> {
  // autocannon's own histogram counts in whole milliseconds.
  const latencies = new Latencies()
  const options = {
    url,
    connections,
    duration: seconds,
    sampleInt: TICK_MS,
    method: 'POST' as const,
    headers: { 'content-type': 'application/octet-stream' },
    body: Buffer.from(input),
    verifyBody: (body: unknown) => isRight(String(body)),
  }
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = cannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    instance.on('response', (_client, _status, _bytes, ms) => latencies.record(ms))
  })
  return {
    latencies,
    seconds: result.duration,
    sent: result.requests.sent,
    answered: latencies.count,
    wrong: result.mismatches,
    failed: result.non2xx,
    errors: result.errors,
  }
}
