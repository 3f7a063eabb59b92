import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { suspending } from '../../src/platform/missing-types.ts'
import { COMMAND } from '../scenario.ts'
import { startServer } from '../server-process.ts'
import { percentile } from '../statistics.ts'
import { type Growth, watchMemory } from './transfers.ts'

/** Many clients of a stream of events at once. */
export interface EventsMeasurement extends Growth {
  readonly clients: number
  readonly workers: number
  readonly intervalMs: number
  /** Events that came. */
  readonly events: number
  /** Clients whose events were not exactly those that were sent, or that were refused. */
  readonly failed: number
  /** Time until the first event, of 99 % of the clients. */
  readonly firstMs: number
  /** CPU time of the server. */
  readonly cpuMicrosPerEvent: number
}

const WORKERS = 4

/** A thread has many streams where V8 can suspend guests, else one. */
const CLIENTS = suspending ? 1_000 : WORKERS

/** What the example sends. */
const EVENTS = 10
const EXPECTED = Array.from(
  { length: EVENTS },
  (_, i) => `event: count\nid: ${i + 1}\ndata: ${i + 1}\n\n`,
).join('')

/** Opens all streams at once, and reads them to their end. */
export async function measureEvents(intervalMs: number): Promise<EventsMeasurement> {
  const flags = ['--function', 'count', '--method', 'GET', '--workers', String(WORKERS)]
  const config = ['--config', `interval=${intervalMs}`]
  const server = await startServer({
    name: 'events',
    command: [process.execPath, ...COMMAND, ...flags, ...config, 'plugins/streams-rust/streams.wasm'],
    path: '/',
  })
  try {
    await readEvents(server.url)
    await server.idle()
    const cpuBefore = server.cpuMicros()
    const results: Events[] = []
    const growth = await watchMemory(server, async () => {
      results.push(...(await Promise.all(Array.from({ length: CLIENTS }, () => readEvents(server.url)))))
    })
    await server.idle()
    const events = results.reduce((sum, { text }) => sum + text.split('event: ').length - 1, 0)
    return {
      ...{ clients: CLIENTS, workers: WORKERS, intervalMs, events, ...growth },
      failed: results.filter(({ text }) => text !== EXPECTED).length,
      firstMs: percentile(
        results.map(({ firstMs }) => firstMs),
        99,
      ),
      cpuMicrosPerEvent: (server.cpuMicros() - cpuBefore) / events,
    }
  } finally {
    server.stop()
  }
}

interface Events {
  readonly text: string
  readonly firstMs: number
}

/** A refusal has other text. */
async function readEvents(url: string): Promise<Events> {
  const begun = performance.now()
  const [response] = (await once(request(url, { agent: false }).end(), 'response')) as [IncomingMessage]
  let text = ''
  let firstMs: number | undefined
  for await (const piece of response) {
    firstMs ??= performance.now() - begun
    text += piece
  }
  return { text, firstMs: firstMs ?? Number.NaN }
}
