/** Counts requests of clients in windows of time. */
export interface RateCounter {
  /**
   * Counts a request.
   *
   * @param client - Unique in its table.
   * @returns a promise if another process counts.
   */
  count(table: RateTable, client: string, timeWindowMs: number): RateCount | Promise<RateCount>
}

/**
 * What is counted: requests of addresses, or messages of clients of the MCP endpoint. Many clients of one kind do not make
 * those of another forgotten.
 */
export type RateTable = 'request' | 'key' | 'token' | 'address'

/** The window of a client, after a request was counted. */
export interface RateCount {
  /** Requests in this window. */
  readonly current: number
  /** Rest of the window, in milliseconds. */
  readonly ttl: number
}

interface Window {
  readonly begunAt: number
  count: number
}

/** The maximum number of clients in a table. Beyond it the one that was counted longest ago is forgotten. */
const MAX_CLIENTS = 20_000

/** Counts for as long as it exists: it has to outlive the apps that use it, because a reload must not begin new windows. */
export class RateCounts implements RateCounter {
  readonly #tables = new Map<RateTable, Map<string, Window>>()

  /** @param now - In milliseconds. */
  count(table: RateTable, client: string, timeWindowMs: number, now = performance.now()): RateCount {
    const clients = this.#tables.get(table) ?? new Map<string, Window>()
    this.#tables.set(table, clients)
    const known = clients.get(client)
    const isOver = !known || now >= known.begunAt + timeWindowMs
    const window = isOver ? { begunAt: now, count: 0 } : known
    window.count++
    clients.delete(client) // to become the last
    clients.set(client, window)
    if (clients.size > MAX_CLIENTS) forgetOldest(clients)
    return { current: window.count, ttl: Math.ceil(window.begunAt + timeWindowMs - now) }
  }
}

function forgetOldest(clients: Map<string, Window>): void {
  const [oldest] = clients.keys()
  if (oldest !== undefined) clients.delete(oldest)
}
