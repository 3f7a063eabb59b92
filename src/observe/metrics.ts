import { Counts, DURATION_BOUNDS_MS, Histogram } from './counts.ts'
import { type CallTimes, OUTCOMES, type Outcome } from './observe.ts'
import { addStats, type EngineStats, NO_STATS, withoutPresent } from './stats.ts'

/** How many versions that are not served any more are told apart. */
const MAX_PAST = 100

/** Where older ones are counted, so that a server that is reloaded for years has no more to report. */
const OTHER: MeterLabels = { route: 'other', plugin: 'other', digest: 'other' }

const RELOAD_RESULTS = ['ok', 'refused'] as const

/** Which calls are counted together. No client chooses any of it. */
export interface MeterLabels {
  /** URL of the route, with its host in front if it has one. */
  readonly route: string
  /** Name of the plug-in. */
  readonly plugin: string
  /** The first 12 digits of its digest. */
  readonly digest: string
}

/** Something that counts for itself, such as an engine. */
export interface StatsSource {
  readonly stats: EngineStats
}

/** Per-route call metrics, through all reloads of a server. Only there with `--admin`. */
export class Meters {
  /** Of files, configuration or by the API: whether the new state is served. */
  readonly reloads = new Counts<(typeof RELOAD_RESULTS)[number]>(RELOAD_RESULTS)
  readonly #meters = new Map<string, RouteMeter>()

  /** In the order in which they came. */
  get all(): readonly RouteMeter[] {
    return [...this.#meters.values()]
  }

  /** The meter of one version on one route: that of before, if there is one. */
  of(labels: MeterLabels): RouteMeter {
    const key = keyOf(labels)
    const meter = this.#meters.get(key) ?? new RouteMeter(labels, (meter) => this.#left(meter))
    this.#meters.set(key, meter)
    return meter
  }

  /** No engine of it is open. */
  #left(meter: RouteMeter): void {
    if (meter.labels === OTHER) return
    const key = keyOf(meter.labels)
    this.#meters.delete(key)
    if (!meter.hasOpened) return
    this.#meters.set(key, meter) // behind those that left before
    const past = this.all.filter(({ isOpen, labels }) => !isOpen && labels !== OTHER)
    for (const oldest of past.slice(0, -MAX_PAST)) {
      this.#meters.delete(keyOf(oldest.labels))
      this.of(OTHER).add(oldest)
    }
  }
}

function keyOf({ route, plugin, digest }: MeterLabels): string {
  return JSON.stringify([route, plugin, digest])
}

/** What is counted of one version of a plug-in on one route. It counts on if the same version comes back. */
export class RouteMeter {
  readonly labels: MeterLabels
  readonly outcomes = new Counts<Outcome>(OUTCOMES)
  /** Of calls whose guests ran, in milliseconds. */
  readonly queueMs = new Histogram(DURATION_BOUNDS_MS)
  readonly guestMs = new Histogram(DURATION_BOUNDS_MS)
  readonly outbound = new Counts<OutboundResult>(OUTBOUND_RESULTS)
  readonly kv = new Counts<KvResult>(KV_RESULTS)
  readonly #engines = new Set<StatsSource>()
  readonly #onLeft: (meter: RouteMeter) => void
  #past = NO_STATS
  #hasOpened = false

  /** @param onLeft - Called when none of its engines is open any more. */
  constructor(labels: MeterLabels, onLeft: (meter: RouteMeter) => void) {
    this.labels = labels
    this.#onLeft = onLeft
  }

  /** Of the engines that are open, and what those have done that are not. */
  get stats(): EngineStats {
    return [...this.#engines].map(({ stats }) => stats).reduce(addStats, this.#past)
  }

  get isOpen(): boolean {
    return this.#engines.size > 0
  }

  /** Whether there ever was an engine. */
  get hasOpened(): boolean {
    return this.#hasOpened
  }

  /** Counts a call that is over. */
  count(times: CallTimes, outcome: Outcome): void {
    this.outcomes.count(outcome)
    const { guestMs } = times
    if (guestMs === undefined) return
    this.guestMs.observe(guestMs)
    this.queueMs.observe(times.queueMs ?? 0)
  }

  /** Takes what another has counted, which is to be forgotten. */
  add(other: RouteMeter): void {
    this.outcomes.add(other.outcomes)
    this.queueMs.add(other.queueMs)
    this.guestMs.add(other.guestMs)
    this.outbound.add(other.outbound)
    this.kv.add(other.kv)
    this.#past = addStats(this.#past, other.stats)
  }

  /** An engine runs its calls. */
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

  /** Lets it be forgotten if it never had an engine: of what never was served there may be any number. */
  release(): void {
    if (!this.#hasOpened) this.#onLeft(this)
  }
}

/** How an HTTP request of a guest can end: with an answer, by the first digit of its status, or a failure. */
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
