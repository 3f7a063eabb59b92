import { useEffect, useState } from 'preact/hooks'
import {
  type AdminApi,
  AdminApiError,
  type LiveCounts,
  type MeterCounts,
  type PluginInfo,
  type ShownRoute,
} from './admin-api.ts'

/** The polling interval in milliseconds. */
const POLL_MS = 1_000

/** The state of the server for the views: its routes, its plug-ins, and its counts of the last minute. */
export class LiveServer {
  readonly api: AdminApi
  readonly history = new LiveHistory()
  routes: readonly ShownRoute[] = []
  plugins: readonly PluginInfo[] = []
  /** While true, the state is frozen. */
  isPaused = false
  /** The error of the last request; undefined if it succeeded. */
  problem: AdminApiError | undefined
  /** The number of polls so far. */
  polls = 0
  readonly #onUpdate: () => void
  #revision: number | undefined
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

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(async () => {
      if (!this.isPaused && !document.hidden) await this.#poll()
      this.#schedule()
    }, POLL_MS)
  }

  async #poll(): Promise<void> {
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
    const counts = await this.api.get<LiveCounts>('/api/live')
    const isRestarted = counts.ms < (this.history.last?.ms ?? 0)
    if (counts.revision !== this.#revision || isRestarted) {
      const [routes, plugins] = await Promise.all([
        this.api.get<ShownRoute[]>('/api/routes'),
        this.api.get<PluginInfo[]>('/api/plugins'),
      ])
      this.routes = routes
      this.plugins = plugins
      this.#revision = counts.revision
    }
    this.history.add(counts)
    this.polls++
  }
}

/** The input of a view, created anew when the address changes. */
export interface ViewProps {
  readonly server: LiveServer
  /** The part of the address after the view's name. */
  readonly rest: string
}

/**
 * A resource of the admin API, read when the view appears and then with each poll.
 *
 * @param every - 2: with every second poll.
 * @returns undefined before the first answer. After a failure, the last answer; the page shows the error.
 */
export function usePolled<Resource>(server: LiveServer, path: string, every: number): Resource | undefined {
  const [resource, setResource] = useState<Resource>()
  useEffect(() => {
    server.api.get<Resource>(path).then(setResource, (error) => {
      if (!(error instanceof AdminApiError)) throw error
    })
  }, [server, path, Math.floor(server.polls / every)])
  return resource
}

/** The meters of the calls of some routes. */
export function metersOfRoutes(routes: readonly ShownRoute[]): MeterFilter {
  return {
    routes: routes.map(({ host = '', url }) => host + url),
    digests: routes.flatMap(({ digest, split }) => (split ? [digest, split.digest] : [digest])),
  }
}

/** Host and path of a route. Fastify's route syntax writes a colon as two. */
export function addressOf({ host = '', url }: ShownRoute): string {
  return host + url.replaceAll('::', ':')
}

/** The number of answers kept: one per second, for a minute. */
const KEPT_ANSWERS = 61

/** The number of answers that rates and percentiles are computed from. */
const WINDOW_ANSWERS = 10

/** Outcomes that are not failures of the server: the guest returned an error, or the client disconnected. */
const NO_FAILURES = new Set(['ok', 'guest_error', 'client_gone'])

/** Selects the meters to add up. */
export interface MeterFilter {
  /** Hosts and URLs of routes. */
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
  /** Memory of the guests at the end of the period. */
  readonly bytes: number
  /** Memory of the whole process at the end of the period. */
  readonly processBytes: number
  /** Queued calls at the end of the period. */
  readonly waiting: number
}

/** The counts of the last minute. */
export class LiveHistory {
  #answers: readonly LiveCounts[] = []

  /** Counts lower than the previous ones mean that the server restarted: the history is cleared. */
  add(counts: LiveCounts): void {
    const isRestart = counts.ms < (this.last?.ms ?? 0)
    this.#answers = [...(isRestart ? [] : this.#answers), counts].slice(-KEPT_ANSWERS)
  }

  get last(): LiveCounts | undefined {
    return this.#answers.at(-1)
  }

  /** The last ten seconds of all or selected meters. */
  now(filter?: MeterFilter): RateWindow {
    return this.#window(filter, this.#answers.length - 1, WINDOW_ANSWERS)
  }

  /** The points of a chart: one per second, the oldest first. */
  points(filter?: MeterFilter): RateWindow[] {
    return this.#answers.slice(1).map((_, index) => this.#window(filter, index + 1, 2))
  }

  #window(filter: MeterFilter | undefined, end: number, length: number): RateWindow {
    const to = this.#answers[end]
    const from = this.#answers[Math.max(0, end - length)]
    const seconds = to && from ? (to.ms - from.ms) / 1_000 : 0
    const meters = metersOf(to, filter)
    const earlier = new Map(metersOf(from, filter).map((meter) => [meterKey(meter), meter]))
    const bounds = to?.boundsMs ?? []
    const guest = bounds.map(() => 0).concat(0)
    let calls = 0
    let failures = 0
    for (const meter of meters) {
      const before = seconds > 0 ? earlier.get(meterKey(meter)) : meter // a new meter starts at 0
      for (const [outcome, count] of Object.entries(meter.outcomes)) {
        const more = count - (before?.outcomes[outcome] ?? 0)
        calls += more
        if (!NO_FAILURES.has(outcome)) failures += more
      }
      for (const [bucket, count] of meter.guest.entries())
        guest[bucket] = (guest[bucket] ?? 0) + count - (before?.guest[bucket] ?? 0)
    }
    return {
      rate: seconds > 0 ? calls / seconds : 0,
      failureRate: seconds > 0 ? failures / seconds : 0,
      p50: percentile(guest, bounds, 0.5),
      p95: percentile(guest, bounds, 0.95),
      p99: percentile(guest, bounds, 0.99),
      bytes: meters.reduce((sum, { guestBytes, kernelBytes }) => sum + guestBytes + kernelBytes, 0),
      processBytes: to?.memoryBytes ?? 0,
      waiting: meters.reduce((sum, { waiting }) => sum + waiting, 0),
    }
  }
}

function metersOf(counts: LiveCounts | undefined, filter: MeterFilter | undefined): readonly MeterCounts[] {
  const { meters = [] } = counts ?? {}
  if (!filter) return meters
  return meters.filter(
    ({ route, digest }) =>
      filter.routes.includes(route) && filter.digests.some((known) => known.startsWith(digest)),
  )
}

function meterKey({ route, plugin, digest }: MeterCounts): string {
  return JSON.stringify([route, plugin, digest])
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
  const total = counts.reduce((sum, count) => sum + count, 0)
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
