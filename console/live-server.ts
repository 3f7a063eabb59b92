import {
  type AdminApi,
  AdminApiError,
  type FigureCounts,
  type LiveCounts,
  type MeterCounts,
  type ShownRoute,
} from './admin-api.ts'

/** The polling interval in milliseconds. */
const POLL_MS = 1_000

/** Reads part of the deployment for a view. */
type Reader = () => Promise<void>

/** The state of the server for the views: its counts of the last minute, and when its routes and plug-ins change. */
export class LiveServer {
  readonly api: AdminApi
  readonly history = new LiveHistory()
  /** While true, the state is frozen. */
  isPaused = false
  /** The error of the last request; undefined if it succeeded. */
  problem: AdminApiError | undefined
  /** The number of polls so far. */
  polls = 0
  readonly #onUpdate: () => void
  readonly #readers = new Set<Reader>()
  #watched: readonly string[] = []
  #revision: number | undefined
  #lastPoll: Promise<void> = Promise.resolve()
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** @param onUpdate - Called after each change of the state. */
  constructor(api: AdminApi, onUpdate: () => void) {
    this.api = api
    this.#onUpdate = onUpdate
  }

  /** @throws {@link AdminApiError} if the first request fails. */
  async start(): Promise<void> {
    await this.#read()
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  /** Refreshes all of the state, after a change. A failure becomes the `problem`. */
  async refresh(): Promise<void> {
    this.#revision = undefined
    await this.#poll()
  }

  /** Reads now, and whenever plug-ins or routes have changed. @returns a function that ends it. */
  follow(read: Reader): () => void {
    this.#readers.add(read)
    read().catch((error) => {
      if (!(error instanceof AdminApiError)) throw error // the page shows the error of the next poll
    })
    return () => this.#readers.delete(read)
  }

  /** Polls the counts of these routes, from now on, and of no others. @param ids - At most {@link MAX_WATCHED}. */
  watch(ids: readonly string[]): void {
    this.#watched = ids
    if (ids.length > 0 && !this.isPaused) void this.#poll()
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(async () => {
      if (!this.isPaused && !document.hidden) await this.#poll()
      this.#schedule()
    }, POLL_MS)
  }

  /** Polls one at a time: counts that arrive out of order would look like those of a restarted server. */
  #poll(): Promise<void> {
    this.#lastPoll = this.#lastPoll.then(() => this.#pollNow())
    return this.#lastPoll
  }

  async #pollNow(): Promise<void> {
    try {
      await this.#read()
      this.problem = undefined
    } catch (error) {
      if (!(error instanceof AdminApiError)) throw error
      this.problem = error
    }
    if (!this.#isClosed) this.#onUpdate()
  }

  async #read(): Promise<void> {
    const watched = this.#watched
    const counts = await this.api.get<LiveCounts>(`/api/live?routes=${watched}`)
    const isRestarted = counts.ms < (this.history.last?.ms ?? 0)
    if (counts.revision !== this.#revision || isRestarted) {
      await Promise.all([...this.#readers].map((read) => read()))
      this.#revision = counts.revision
    }
    this.history.add(counts, watched)
    this.polls++
  }
}

/** The maximum number of routes whose counts are polled. */
export const MAX_WATCHED = 200

/** The input of a view, created anew when the address changes. */
export interface ViewProps {
  readonly server: LiveServer
  /** The part of the address after the view's name. */
  readonly rest: string
}

/** The meters of the calls of some routes. */
export function metersOfRoutes(routes: readonly ShownRoute[]): MeterFilter {
  return {
    ids: routes.map(({ id }) => id),
    routes: routes.map(({ host = '', url }) => host + url),
    digests: routes.flatMap(({ digest, split }) => (split ? [digest, split.digest] : [digest])),
  }
}

/** Host and path of a route. */
export function addressOf({ host = '', url }: ShownRoute): string {
  return readableUrl(host + url)
}

/** Fastify's route syntax writes a colon as two. */
export function readableUrl(url: string): string {
  return url.replaceAll('::', ':')
}

/** The number of answers kept: one per second, for a minute. */
const KEPT_ANSWERS = 61

/** The number of answers that rates and percentiles are computed from. */
const WINDOW_ANSWERS = 10

/** Outcomes that are not failures of the server: the guest returned an error, or the client disconnected. */
const NO_FAILURES = new Set(['ok', 'guest_error', 'client_gone'])

/** Selects the meters to add up. */
export interface MeterFilter {
  /** Ids of routes. */
  readonly ids: readonly string[]
  /** Hosts and URLs of the routes. */
  readonly routes: readonly string[]
  /** Full digests of versions; meters have only the first digits. */
  readonly digests: readonly string[]
}

/** Rates and percentiles over a few seconds. */
export interface RateWindow {
  /** Calls per second. */
  readonly rate: number
  /** Failed calls per second. */
  readonly failureRate: number
  /** Time in the guest, in milliseconds; undefined without calls. */
  readonly p50: number | undefined
  readonly p95: number | undefined
  readonly p99: number | undefined
  /** Calls until the end of the period. */
  readonly calls: number
  /** Memory of the guests at the end of the period. */
  readonly bytes: number
  /** Memory of the whole process at the end of the period. */
  readonly processBytes: number
  /** Queued calls at the end of the period. */
  readonly waiting: number
}

/** Counts, and the routes that they include. */
interface KeptAnswer {
  readonly counts: LiveCounts
  /** Ids of routes. */
  readonly watched: ReadonlySet<string>
  /** Counts by host and URL of the route. */
  readonly meters: ReadonlyMap<string, readonly MeterCounts[]>
}

/** The counts of the last minute. */
export class LiveHistory {
  #answers: readonly KeptAnswer[] = []

  /**
   * Counts lower than the previous ones mean that the server restarted: the history is cleared.
   *
   * @param watched - The ids of the routes that were asked for.
   */
  add(counts: LiveCounts, watched: readonly string[]): void {
    const isRestart = counts.ms < (this.last?.ms ?? 0)
    const answer = { counts, watched: new Set(watched), meters: byRoute(counts) }
    this.#answers = [...(isRestart ? [] : this.#answers), answer].slice(-KEPT_ANSWERS)
  }

  get last(): LiveCounts | undefined {
    return this.#answers.at(-1)?.counts
  }

  /** The last ten seconds of all calls, or of those of some routes. */
  now(filter?: MeterFilter): RateWindow {
    return this.#window(filter, this.#answers.length - 1, WINDOW_ANSWERS)
  }

  /** The points of a chart: one per second, the oldest first. */
  points(filter?: MeterFilter): RateWindow[] {
    return this.#answers.slice(1).map((_, index) => this.#window(filter, index + 1, 2))
  }

  #window(filter: MeterFilter | undefined, end: number, length: number): RateWindow {
    const last = this.#answers[end]
    // Routes that were not asked for have no counts, which does not mean that they had no calls.
    const first = this.#answers
      .slice(Math.max(0, end - length), end + 1)
      .find(({ watched }) => !filter || filter.ids.every((id) => watched.has(id)))
    const seconds = last && first ? (last.counts.ms - first.counts.ms) / 1_000 : 0
    const figures = figuresOf(last, filter)
    const earlier = figuresOf(first, filter)
    const bounds = last?.counts.boundsMs ?? []
    const guest = bounds.map(() => 0).concat(0)
    let calls = 0
    let failures = 0
    for (const [key, each] of figures) {
      const before = seconds > 0 ? earlier.get(key) : each // a new meter starts at 0
      for (const [outcome, count] of Object.entries(each.outcomes)) {
        const more = count - (before?.outcomes[outcome] ?? 0)
        calls += more
        if (!NO_FAILURES.has(outcome)) failures += more
      }
      for (const [bucket, count] of each.guest.entries())
        guest[bucket] = (guest[bucket] ?? 0) + count - (before?.guest[bucket] ?? 0)
    }
    const all = [...figures.values()]
    return {
      rate: seconds > 0 ? calls / seconds : 0,
      failureRate: seconds > 0 ? failures / seconds : 0,
      p50: percentile(guest, bounds, 0.5),
      p95: percentile(guest, bounds, 0.95),
      p99: percentile(guest, bounds, 0.99),
      calls: all.reduce((sum, { outcomes }) => sum + sumOf(Object.values(outcomes)), 0),
      bytes: all.reduce((sum, { guestBytes, kernelBytes }) => sum + guestBytes + kernelBytes, 0),
      processBytes: last?.counts.memoryBytes ?? 0,
      waiting: all.reduce((sum, { waiting }) => sum + waiting, 0),
    }
  }
}

function byRoute({ meters }: LiveCounts): ReadonlyMap<string, readonly MeterCounts[]> {
  const found = new Map<string, MeterCounts[]>()
  for (const meter of meters) found.set(meter.route, [...(found.get(meter.route) ?? []), meter])
  return found
}

function figuresOf(
  answer: KeptAnswer | undefined,
  filter: MeterFilter | undefined,
): ReadonlyMap<string, FigureCounts> {
  if (!answer) return new Map()
  if (!filter) return new Map([['', answer.counts.total]])
  const meters = [...new Set(filter.routes)].flatMap((route) => answer.meters.get(route) ?? [])
  return new Map(
    meters
      .filter(({ digest }) => filter.digests.some((known) => known.startsWith(digest)))
      .map((meter) => [`${meter.route} ${meter.plugin} ${meter.digest}`, meter]),
  )
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0)
}

/**
 * The percentile of a histogram, by linear interpolation within a bucket.
 *
 * @returns undefined if the histogram is empty; the last bound if the value is above it.
 */
export function percentile(
  counts: readonly number[],
  bounds: readonly number[],
  part: number,
): number | undefined {
  const total = sumOf(counts)
  if (total === 0) return undefined
  let left = total * part
  for (const [bucket, upper] of bounds.entries()) {
    const count = counts[bucket] ?? 0
    if (left <= count && count > 0) {
      const lower = bounds[bucket - 1] ?? 0
      return lower + ((upper - lower) * left) / count
    }
    left -= count
  }
  return bounds.at(-1)
}
