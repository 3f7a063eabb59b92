import { type RunningLoad, startSocketLoad } from '../load/sockets.ts'
import { percentile } from '../statistics.ts'

/*
 * A client of routes that are unrelated to a hostile guest, in its own process. It sends requests at a constant rate,
 * independent of the answers, so that requests also arrive while the server is blocked. The time of an answer counts
 * from when its request was due.
 */

/** Messages to the client. */
export type ToClient =
  | { readonly start: readonly string[]; readonly perSecond: number }
  | { readonly begin: true }
  /** @param limitMs - How long to wait for missing answers. */
  | { readonly end: true; readonly limitMs: number }

/** Results of the requests that were due between `begin` and `end`. */
export interface Innocents {
  readonly answers: number
  /** Without an answer of 200 with their own body. */
  readonly failed: number
  /** Answered with the body of another. */
  readonly wrong: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** On each route. */
const CONNECTIONS = 32

/** One for each route, so that no route waits for connections of another. */
let loads: Promise<readonly RunningLoad[]> = Promise.resolve([])

process.on('message', (message: ToClient) => void obey(message))

async function obey(message: ToClient): Promise<void> {
  if ('start' in message) loads = start(message.start, message.perSecond / message.start.length)
  else if ('begin' in message) for (const load of await loads) load.begin()
  else process.send?.(await end(message.limitMs))
}

function start(urls: readonly string[], perSecond: number): Promise<RunningLoad[]> {
  return Promise.all(
    urls.map((url) => {
      const path = new URL(url).pathname
      return startSocketLoad({
        ...{ url, perSecond, connections: CONNECTIONS, arrivals: 'even' },
        request: (id) => ({ path, body: `innocent ${path} ${id}` }),
        isRight: (body, answer) => answer === body,
      })
    }),
  )
}

async function end(limitMs: number): Promise<Innocents> {
  const counted = await Promise.all((await loads).map((load) => load.end(limitMs)))
  const times = counted.flatMap(({ times }) => times)
  const wrong = counted.reduce((sum, { wrong }) => sum + wrong, 0)
  return {
    answers: times.length,
    failed: counted.reduce((sum, { failed }) => sum + failed, 0),
    wrong,
    p99Ms: percentile(times, 99),
    maxMs: percentile(times, 100),
  }
}
