import { RateLimitedError } from '../errors/errors.ts'

/** Messages per client and window. */
export interface RateLimit {
  readonly max: number
  readonly timeWindowMs: number
}

/** Clients that are counted. Beyond that, the others share a count. */
const MAX_CLIENTS = 10_000

/** Counts messages of clients in fixed windows. */
export class ClientRates {
  readonly #limit: RateLimit
  #counts = new Map<string, number>()
  #until = 0

  constructor(limit: RateLimit) {
    this.#limit = limit
  }

  /** @throws {@link RateLimitedError} if the client has used up its window. */
  count(client: string, now = performance.now()): void {
    const { max, timeWindowMs } = this.#limit
    if (now >= this.#until) {
      this.#counts = new Map()
      this.#until = now + timeWindowMs
    }
    const key = this.#counts.has(client) || this.#counts.size < MAX_CLIENTS ? client : ''
    const count = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, count)
    if (count > max) throw new RateLimitedError(max, timeWindowMs)
  }

  /** Seconds until the window ends. */
  retryAfter(now = performance.now()): number {
    return Math.max(1, Math.ceil((this.#until - now) / 1_000))
  }
}
