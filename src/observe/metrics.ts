import { type CallTimes, OUTCOMES, type Outcome } from './observe.ts'

/** Number of old versions with labels of their own. */
const MAX_PAST = 100

/** The label for older versions, which bounds the number of labels over years of reloads. */
const OTHER_VERSIONS: MeterLabels = { route: 'other', plugin: 'other', digest: 'other' }

const RELOAD_RESULTS = ['ok', 'refused'] as const

/** The labels of a meter. Clients cannot choose any of them. */
export interface MeterLabels {
  /** URL of the route, after its host if it has one. */
  readonly route: string
  /** Name of the plug-in. */
  readonly plugin: string
  /** The first 12 digits of its digest. */
  readonly digest: string
}

/** A source of counts, such as an engine. */
export interface StatsSource {
  readonly stats: EngineStats
}

/** Per-route call metrics, kept across reloads. Only active with `--admin`. */
export class Meters {
  /** Reloads of files or configuration and changes by the API, by result. */
  readonly reloads = new Counts<(typeof RELOAD_RESULTS)[number]>(RELOAD_RESULTS)
  readonly #meters = new Map<string, RouteMeter>()

  /** In order of creation. */
  get all(): readonly RouteMeter[] {
    return [...this.#meters.values()]
  }

  /** The meter of one version on one route; an existing one is continued. */
  of(labels: MeterLabels): RouteMeter {
    const key = labelKey(labels)
    const meter = this.#meters.get(key) ?? new RouteMeter(labels, (meter) => this.#left(meter))
    this.#meters.set(key, meter)
    return meter
  }

  /** Called when its last engine has closed. */
  #left(meter: RouteMeter): void {
    if (meter.labels === OTHER_VERSIONS) return
    const key = labelKey(meter.labels)
    this.#meters.delete(key)
    if (!meter.hasOpened) return
    this.#meters.set(key, meter) // ordered by the time of leaving
    const past = this.all.filter(({ isOpen, labels }) => !isOpen && labels !== OTHER_VERSIONS)
    for (const oldest of past.slice(0, -MAX_PAST)) {
      this.#meters.delete(labelKey(oldest.labels))
      this.of(OTHER_VERSIONS).add(oldest)
    }
  }
}

function labelKey({ route, plugin, digest }: MeterLabels): string {
  return JSON.stringify([route, plugin, digest])
}

/** The metrics of one version of a plug-in on one route. They continue if the same version comes back. */
export class RouteMeter {
  readonly labels: MeterLabels
  readonly outcomes = new Counts<Outcome>(OUTCOMES)
  /** Histograms of calls whose guests ran, in milliseconds. */
  readonly queueMs = new Histogram(DURATION_BOUNDS_MS)
  readonly guestMs = new Histogram(DURATION_BOUNDS_MS)
  readonly outbound = new Counts<OutboundResult>(OUTBOUND_RESULTS)
  readonly kv = new Counts<KvResult>(KV_RESULTS)
  readonly #engines = new Set<StatsSource>()
  readonly #onLeft: (meter: RouteMeter) => void
  #past = NO_STATS
  #hasOpened = false

  /** @param onLeft - Called when its last engine has closed. */
  constructor(labels: MeterLabels, onLeft: (meter: RouteMeter) => void) {
    this.labels = labels
    this.#onLeft = onLeft
  }

  /** Stats of open engines plus the counters of closed ones. */
  get stats(): EngineStats {
    return [...this.#engines].map(({ stats }) => stats).reduce(addStats, this.#past)
  }

  get isOpen(): boolean {
    return this.#engines.size > 0
  }

  /** Whether it ever had an engine. */
  get hasOpened(): boolean {
    return this.#hasOpened
  }

  /** Counts a completed call. */
  count(times: CallTimes, outcome: Outcome): void {
    this.outcomes.count(outcome)
    const { guestMs } = times
    if (guestMs === undefined) return
    this.guestMs.observe(guestMs)
    this.queueMs.observe(times.queueMs ?? 0)
  }

  /** Adds the counts of another meter, which will be removed. */
  add(other: RouteMeter): void {
    this.outcomes.add(other.outcomes)
    this.queueMs.add(other.queueMs)
    this.guestMs.add(other.guestMs)
    this.outbound.add(other.outbound)
    this.kv.add(other.kv)
    this.#past = addStats(this.#past, other.stats)
  }

  /** Attaches an engine. */
  opened(engine: StatsSource): void {
    this.#hasOpened = true
    this.#engines.add(engine)
  }

  /** The engine is closed. */
  closed(engine: StatsSource): void {
    if (!this.#engines.delete(engine)) return
    this.#past = addStats(this.#past, withoutPresent(engine.stats))
    if (!this.isOpen) this.#onLeft(this)
  }

  /** Removes it if it never had an engine: there may be any number of versions that were never served. */
  release(): void {
    if (!this.#hasOpened) this.#onLeft(this)
  }
}

/** The result of a guest's HTTP request: the class of its response's status, or a failure. */
export const OUTBOUND_RESULTS = [
  ...(['1xx', '2xx', '3xx', '4xx', '5xx'] as const),
  ...(['invalid', 'refused', 'timeout', 'too_large', 'failed'] as const),
] as const

export type OutboundResult = (typeof OUTBOUND_RESULTS)[number]

const KV_OPERATIONS = ['get', 'set', 'delete', 'list', 'compareAndSwap'] as const
const KV_OPERATION_RESULTS = ['ok', 'forbidden', 'invalid', 'too-large', 'full', 'unavailable'] as const

/** An operation of a guest on the store and its result, with a space between them. */
export type KvResult = `${(typeof KV_OPERATIONS)[number]} ${(typeof KV_OPERATION_RESULTS)[number]}`

const KV_RESULTS: readonly KvResult[] = KV_OPERATIONS.flatMap((operation) =>
  KV_OPERATION_RESULTS.map((result) => `${operation} ${result}` as const),
)

/** Counters with a fixed set of names, so that the number of labels is bounded. */
export class Counts<Name extends string> {
  readonly names: readonly Name[]
  readonly #counts: Float64Array
  readonly #places: ReadonlyMap<string, number>

  constructor(names: readonly Name[]) {
    this.names = names
    this.#counts = new Float64Array(names.length)
    this.#places = new Map(names.map((name, place) => [name, place]))
  }

  count(name: Name, times = 1): void {
    const place = this.#places.get(name) ?? -1
    if (place >= 0) this.#counts[place] = (this.#counts[place] as number) + times
  }

  of(name: Name): number {
    return this.#counts[this.#places.get(name) ?? -1] ?? 0
  }

  /** Counts that are not 0. */
  get counted(): [name: Name, times: number][] {
    return this.names.map((name): [Name, number] => [name, this.of(name)]).filter(([, times]) => times > 0)
  }

  add(other: Counts<Name>): void {
    for (const name of this.names) this.count(name, other.of(name))
  }
}

/** Fixed-bucket histogram. `observe` allocates nothing. */
export class Histogram {
  /** Upper bounds, ascending; the last count is of values above all of them. */
  readonly bounds: readonly number[]
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds, counts } = this
    let place = 0
    while (place < bounds.length && value > (bounds[place] as number)) place++
    counts[place] = (counts[place] as number) + 1
    this.sum += value
  }

  add(other: Histogram): void {
    for (const [place, count] of other.counts.entries()) {
      this.counts[place] = (this.counts[place] as number) + count
    }
    this.sum += other.sum
  }
}

/** Bucket bounds in milliseconds: half of them for computing guests, half for waiting guests. */
export const DURATION_BOUNDS_MS: readonly number[] = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
]

/** An engine's current state and its counters since it was opened. Computed on each read. */
export interface EngineStats {
  /** Queued calls. */
  readonly waiting: number
  /** Calls assigned to instances: on the event loop at most one; a thread may have some in advance. */
  readonly running: number
  /** Open instances, one per thread, including spare ones. */
  readonly instances: number
  /** Memory of the guests' modules, as far as they export it. */
  readonly guestBytes: number
  /** Memory that the runtime holds for them. */
  readonly kernelBytes: number
  /** Instances replaced at the end of their lifetime: `fresh`, `recycle`, `recycleMemory`. */
  readonly recycled: number
  /** Instances and threads replaced after a failure or timeout. */
  readonly restarted: number
  /** Guests terminated at their deadline. */
  readonly timeouts: number
  /** Stuck threads of this plug-in at this route, including those of earlier engines and of trial starts. */
  readonly stuck: number
  /** Dropped log lines of guests. */
  readonly droppedLines: number
  /** Whether calls are refused because no instance can be started. */
  readonly isBreakerOpen: boolean
}

export const NO_STATS: EngineStats = {
  waiting: 0,
  running: 0,
  instances: 0,
  guestBytes: 0,
  kernelBytes: 0,
  recycled: 0,
  restarted: 0,
  timeouts: 0,
  stuck: 0,
  droppedLines: 0,
  isBreakerOpen: false,
}

/** The sum of both. */
export function addStats(one: EngineStats, other: EngineStats): EngineStats {
  return {
    waiting: one.waiting + other.waiting,
    running: one.running + other.running,
    instances: one.instances + other.instances,
    guestBytes: one.guestBytes + other.guestBytes,
    kernelBytes: one.kernelBytes + other.kernelBytes,
    recycled: one.recycled + other.recycled,
    restarted: one.restarted + other.restarted,
    timeouts: one.timeouts + other.timeouts,
    stuck: one.stuck + other.stuck,
    droppedLines: one.droppedLines + other.droppedLines,
    isBreakerOpen: one.isBreakerOpen || other.isBreakerOpen,
  }
}

/** The counters of a closed engine: nothing is open or queued. */
export function withoutPresent(stats: EngineStats): EngineStats {
  const { recycled, restarted, timeouts, droppedLines } = stats
  return { ...NO_STATS, recycled, restarted, timeouts, droppedLines }
}
