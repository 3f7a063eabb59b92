import type { RateCount, RateCounter } from '../platform/rate-counts.ts'
import type { Client } from '../route/client.ts'

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

  count({ kind, id }: Client): RateCount | Promise<RateCount> {
    return this.#counter.count(kind, id, this.limit.timeWindowMs)
  }
}
