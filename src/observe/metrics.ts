import {
  CLOSE_CODES,
  type CountedCalls,
  type Histogram,
  type KvResult,
  type OutboundResult,
  RouteMetrics,
  type SocketCount,
  type SocketStats,
  type StreamStats,
} from './counters.ts'
import { addStats, type EngineStats, NO_STATS, withoutPresent } from './engine-stats.ts'
import { type CallTimes, isFailure, type Outcome } from './observe.ts'

/** Number of versions with labels of their own: those that were called first. */
const MAX_OWN = 1_000

/** Number of them that may be old. */
const MAX_PAST = 100

/** The labels of the others together, which bound the size of an answer with thousands of routes or after years of reloads. */
const OTHERS: MeterLabels = { route: 'other', plugin: 'other', digest: 'other' }

/** The labels of a meter. Clients cannot choose any of them. */
export interface MeterLabels {
  /** URL of the route, after its host if it has one. */
  readonly route: string
  /** Name of the plug-in. */
  readonly plugin: string
  /** The first 12 digits of its digest. */
  readonly digest: string
}

/** @param route - URL of the route, after its host if it has one. @param plugin - Name of the plug-in. */
export function meterLabels(route: string, plugin: string, digest: string): MeterLabels {
  return { route, plugin, digest: digest.slice(0, 12) }
}

/** Counters of the calls of one version on one route. Unlike metrics, they are never shared with other routes. */
export interface CallTotals {
  calls: number
  /** Calls that failed: see {@link isFailure}. */
  failures: number
  /** Time in the guest, in milliseconds. */
  guestMs: number
}

/** A source of counts, such as an engine. */
export interface StatsSource {
  readonly stats: EngineStats
}

/** The metrics of a version, or of several together. */
export interface MeterView extends CountedCalls {
  readonly labels: MeterLabels
  /** Statistics of open engines, plus the counters of closed ones. */
  readonly stats: EngineStats
  readonly isOpen: boolean
}

/** Per-route call metrics, kept across reloads. Only active with `--admin` or `--probes`. */
export class Meters {
  /** The metrics of a version that was not called. */
  readonly noMetrics = new RouteMetrics()
  readonly #meters = new Map<string, RouteMeter>()
  /** Meters without an engine, in the order in which their engines were closed. */
  readonly #past = new Map<string, RouteMeter>()
  readonly #metricsOfOthers = new RouteMetrics()
  #pastOfOthers = NO_STATS
  #own = 0
  #hasOthers = false

  /** Meters in order of creation; those without labels of their own together at the end. */
  get all(): readonly MeterView[] {
    const all = [...this.#meters.values()]
    if (!this.#hasOthers && all.length <= MAX_OWN) return all
    const isMany = all.length > MAX_OWN
    const others = all.filter((meter) => (isMany ? !meter.isOwn : meter.isShared))
    const own = all.filter((meter) => (isMany ? meter.isOwn : !meter.isShared))
    const { outcomes, queueMs, guestMs, outbound, kv, streams, sockets } = this.#metricsOfOthers
    const stats = others.map(({ stats }) => stats).reduce(addStats, this.#pastOfOthers)
    return [
      ...own,
      {
        labels: OTHERS,
        ...{ outcomes, queueMs, guestMs, outbound, kv, streams, sockets, stats },
        isOpen: others.length > 0,
      },
    ]
  }

  /** The meter of one version on one route; an existing one is continued. */
  of(labels: MeterLabels): RouteMeter {
    const key = labelKey(labels)
    const meter = this.#meters.get(key) ?? new RouteMeter(labels, this)
    this.#meters.set(key, meter)
    this.#past.delete(key)
    return meter
  }

  /** The meter of one version on one route; undefined if there is none. */
  find(labels: MeterLabels): RouteMeter | undefined {
    return this.#meters.get(labelKey(labels))
  }

  /** Called by a meter's first count. @returns its own metrics, or those of the others. */
  metricsFor(): { readonly metrics: RouteMetrics; readonly isShared: boolean } {
    if (this.#own < MAX_OWN) {
      this.#own++
      return { metrics: new RouteMetrics(), isShared: false }
    }
    this.#hasOthers = true
    return { metrics: this.#metricsOfOthers, isShared: true }
  }

  /** Called by a meter when its last engine has closed. */
  engineClosed(meter: RouteMeter): void {
    const key = labelKey(meter.labels)
    this.#meters.delete(key)
    if (!meter.hasOpened) return
    if (meter.isShared) {
      this.#pastOfOthers = addStats(this.#pastOfOthers, meter.stats)
      return
    }
    this.#meters.set(key, meter)
    this.#past.set(key, meter)
    for (const [oldestKey, oldest] of this.#past) {
      if (this.#past.size <= MAX_PAST) break
      this.#past.delete(oldestKey)
      this.#meters.delete(oldestKey)
      this.#addToOthers(oldest)
    }
  }

  #addToOthers(meter: RouteMeter): void {
    this.#hasOthers = true
    if (meter.isOwn) this.#own--
    this.#metricsOfOthers.add(meter)
    this.#pastOfOthers = addStats(this.#pastOfOthers, meter.stats)
  }
}

function labelKey({ route, plugin, digest }: MeterLabels): string {
  return JSON.stringify([route, plugin, digest])
}

/** The metrics of one version of a plug-in on one route. They continue if the same version comes back. */
export class RouteMeter implements MeterView {
  readonly labels: MeterLabels
  readonly totals: CallTotals = { calls: 0, failures: 0, guestMs: 0 }
  readonly #engines = new Set<StatsSource>()
  readonly #meters: Meters
  /** undefined before its first count: most of thousands of routes are rarely called. */
  #metrics: RouteMetrics | undefined
  #isShared = false
  #past = NO_STATS
  #hasOpened = false

  /** @param meters - Has the metrics of versions without labels of their own. */
  constructor(labels: MeterLabels, meters: Meters) {
    this.labels = labels
    this.#meters = meters
  }

  get outcomes(): RouteMetrics['outcomes'] {
    return (this.#metrics ?? this.#meters.noMetrics).outcomes
  }

  get queueMs(): Histogram {
    return (this.#metrics ?? this.#meters.noMetrics).queueMs
  }

  get guestMs(): Histogram {
    return (this.#metrics ?? this.#meters.noMetrics).guestMs
  }

  get outbound(): RouteMetrics['outbound'] {
    return (this.#metrics ?? this.#meters.noMetrics).outbound
  }

  get kv(): RouteMetrics['kv'] {
    return (this.#metrics ?? this.#meters.noMetrics).kv
  }

  get streams(): RouteMetrics['streams'] {
    return (this.#metrics ?? this.#meters.noMetrics).streams
  }

  get sockets(): RouteMetrics['sockets'] {
    return (this.#metrics ?? this.#meters.noMetrics).sockets
  }

  get stats(): EngineStats {
    let stats = this.#past
    for (const engine of this.#engines) stats = addStats(stats, engine.stats)
    return stats
  }

  get isOpen(): boolean {
    return this.#engines.size > 0
  }

  /** Whether it has counted something under its own labels. */
  get isOwn(): boolean {
    return this.#metrics !== undefined && !this.#isShared
  }

  /** Whether it has counted something under the labels of the others. */
  get isShared(): boolean {
    return this.#isShared
  }

  /** Whether it ever had an engine. */
  get hasOpened(): boolean {
    return this.#hasOpened
  }

  /** Counts a completed call. */
  count(times: CallTimes, outcome: Outcome): void {
    const metrics = this.#counted()
    metrics.outcomes.count(outcome)
    this.totals.calls++
    if (isFailure(outcome)) this.totals.failures++
    const { guestMs } = times
    if (guestMs === undefined) return
    this.totals.guestMs += guestMs
    metrics.guestMs.observe(guestMs)
    metrics.queueMs.observe(times.queueMs ?? 0)
  }

  /** Adds what was counted elsewhere. */
  add(metrics: RouteMetrics): void {
    this.#counted().add(metrics)
    for (const [outcome, times] of metrics.outcomes.entries) {
      this.totals.calls += times
      if (isFailure(outcome)) this.totals.failures += times
    }
    this.totals.guestMs += metrics.guestMs.sum
  }

  /** Counts an HTTP request of a guest. */
  countOutbound(result: OutboundResult): void {
    this.#counted().outbound.count(result)
  }

  /** Counts an operation of a guest on the store. */
  countKv(result: KvResult): void {
    this.#counted().kv.count(result)
  }

  /** Counts an exchange whose guest streams. @param ms - How long it took. */
  countStream({ received, sent, firstByteMs, isBroken }: StreamStats, ms: number): void {
    const { counts, firstByteMs: firstBytes, durationMs } = this.#counted().streams
    counts.count('exchanges')
    counts.count('received', received)
    counts.count('sent', sent)
    if (isBroken) counts.count('broken')
    if (firstByteMs !== undefined) firstBytes.observe(firstByteMs)
    durationMs.observe(ms)
  }

  /** Counts something of WebSockets. */
  countSockets(what: Exclude<SocketCount, `close ${string}`>, times = 1): void {
    this.#counted().sockets.count(what, times)
  }

  /** Counts a WebSocket that has closed, by its code. */
  countClosed(code: number): void {
    const { sockets } = this.#counted()
    sockets.count('closed')
    const name = CLOSE_CODES.find((known) => known === String(code))
    sockets.count(`close ${name ?? 'other'}`)
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
    if (!this.isOpen) this.#meters.engineClosed(this)
  }

  /** Removes it if it never had an engine: there may be any number of versions that were never served. */
  release(): void {
    if (!this.#hasOpened) this.#meters.engineClosed(this)
  }

  #counted(): RouteMetrics {
    if (this.#metrics) return this.#metrics
    const { metrics, isShared } = this.#meters.metricsFor()
    this.#metrics = metrics
    this.#isShared = isShared
    return metrics
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Present if its guest streams. */
    streamStats?: StreamStats
    /** Present if it became a WebSocket. */
    socketStats?: SocketStats
  }
}
