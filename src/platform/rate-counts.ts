/** Counts requests of clients in windows of time. */
export interface RateCounter {
  /** Counts a request. @returns a promise if another process counts. */
  count(client: string, timeWindowMs: number): RateCount | Promise<RateCount>
}

/** The window of a client, after a request was counted. */
export interface RateCount {
  /** Requests in this window. */
  readonly current: number
  /** Rest of the window, in milliseconds. */
  readonly ttl: number
}

/** The maximum number of clients. Beyond it the one that was counted longest ago is forgotten. */
const MAX_CLIENTS = 20_000

/** Counts for as long as it exists: it has to outlive the apps that use it, because a reload must not begin new windows. */
export class RateCounts implements RateCounter {
  readonly #clients = new Map<string, { begunAt: number; count: number }>()

  /** @param now - In milliseconds. */
  count(client: string, timeWindowMs: number, now = performance.now()): RateCount {
    const known = this.#clients.get(client)
    const isOver = !known || now >= known.begunAt + timeWindowMs
    const window = isOver ? { begunAt: now, count: 0 } : known
    window.count++
    this.#clients.delete(client) // to become the last
    this.#clients.set(client, window)
    if (this.#clients.size > MAX_CLIENTS) this.#forgetOldest()
    return { current: window.count, ttl: Math.ceil(window.begunAt + timeWindowMs - now) }
  }

  #forgetOldest(): void {
    const [oldest] = this.#clients.keys()
    if (oldest !== undefined) this.#clients.delete(oldest)
  }
}
