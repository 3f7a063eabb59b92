import type { RateCount, RateCounter } from '../../server/edge/edge.ts'

/** The maximum number of clients. Beyond it the one that was counted longest ago is forgotten. */
const MAX_CLIENTS = 20_000

/** A request to count. */
export type RateQuestion = readonly [client: string, timeWindowMs: number]

/**
 * Counts requests for all serving processes. A share of the limit for each process would be wrong: all requests of a
 * connection go to one of them.
 */
export class RateCounts {
  readonly #clients = new Map<string, { begunAt: number; count: number }>()

  /** @param now - In milliseconds. */
  count([client, timeWindowMs]: RateQuestion, now = performance.now()): RateCount {
    const known = this.#clients.get(client)
    const isOver = !known || now >= known.begunAt + timeWindowMs
    const window = isOver ? { begunAt: now, count: 0 } : known
    window.count++
    this.#clients.delete(client) // to become the last
    this.#clients.set(client, window)
    const [oldest] = this.#clients.keys()
    if (this.#clients.size > MAX_CLIENTS && oldest !== undefined) this.#clients.delete(oldest)
    return { current: window.count, ttl: Math.ceil(window.begunAt + timeWindowMs - now) }
  }
}

/** Sends the requests of one turn of the event loop together. */
export function countTogether(
  ask: (questions: readonly RateQuestion[]) => Promise<readonly RateCount[]>,
): RateCounter {
  let questions: RateQuestion[] = []
  let answers: Promise<readonly RateCount[]> | undefined
  const send = () => {
    const all = questions
    questions = []
    answers = undefined
    return ask(all)
  }
  return {
    async count(client, timeWindowMs) {
      const place = questions.push([client, timeWindowMs]) - 1
      answers ??= new Promise((resolve) => setImmediate(() => resolve(send())))
      const found = (await answers)[place]
      if (!found) throw new Error('a request was not counted')
      return found
    },
  }
}
