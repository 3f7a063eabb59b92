import type { RateCount, RateCounter } from '../platform/rate-counts.ts'

/** Messages per client and window. */
export interface RateLimit {
  readonly max: number
  readonly timeWindowMs: number
}

/** Counts messages of clients. */
export class ClientRates {
  readonly limit: RateLimit
  readonly #counter: RateCounter

  constructor(limit: RateLimit, counter: RateCounter) {
    this.limit = limit
    this.#counter = counter
  }

  /** Requests of the same client are counted apart, for the limit of the server. */
  count(client: string): RateCount | Promise<RateCount> {
    return this.#counter.count(`mcp ${client}`, this.limit.timeWindowMs)
  }
}
