/** Messages per client and window. */
export interface RateLimit {
  readonly max: number
  readonly timeWindowMs: number
}

/** The window of a client, after a message was counted. */
export interface RateWindow {
  /** Messages in this window. */
  readonly current: number
  /** Rest of the window, in ms. */
  readonly ttl: number
}

/** Counts for several processes together. */
export interface SharedCounter {
  count(client: string, timeWindowMs: number): Promise<RateWindow>
}

/** Clients that are counted. Beyond that, the others share a count. */
const MAX_CLIENTS = 10_000

/** Counts messages of clients in fixed windows. */
export class ClientRates {
  readonly limit: RateLimit
  readonly #shared: SharedCounter | undefined
  #counts = new Map<string, number>()
  #until = 0

  /** @param shared - Counts instead of this process alone. */
  constructor(limit: RateLimit, shared?: SharedCounter) {
    this.limit = limit
    this.#shared = shared
  }

  count(client: string): RateWindow | Promise<RateWindow> {
    const { timeWindowMs } = this.limit
    return this.#shared ? this.#shared.count(`mcp ${client}`, timeWindowMs) : this.countHere(client)
  }

  /** Counts a message in this process. */
  countHere(client: string, now = performance.now()): RateWindow {
    if (now >= this.#until) {
      this.#counts = new Map()
      this.#until = now + this.limit.timeWindowMs
    }
    const key = this.#counts.has(client) || this.#counts.size < MAX_CLIENTS ? client : ''
    const current = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, current)
    return { current, ttl: this.#until - now }
  }
}
