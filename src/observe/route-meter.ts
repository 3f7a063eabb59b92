import type { Engine } from '../engine/engine.ts'
import { CallTiming } from '../route/call-timing.ts'
import { Counts } from './counts.ts'
import { DURATION_BOUNDS_MS, Histogram } from './histogram.ts'
import { KV_RESULTS, type KvResult } from './metered-kv.ts'
import { OUTBOUND_RESULTS, type OutboundResult } from './metered-outbound.ts'
import { OUTCOMES, type Outcome, outcomeOf } from './outcome.ts'
import { addStats, type EngineStats, NO_STATS, withoutPresent } from './stats.ts'

/** Which calls are counted together. No client chooses any of it. */
export interface MeterLabels {
  /** URL of the route, with its host in front if it has one. */
  readonly route: string
  /** Name of the plug-in. */
  readonly plugin: string
  /** The first 12 digits of its digest. */
  readonly digest: string
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
  readonly #engines = new Set<Engine>()
  #past = NO_STATS
  #hasOpened = false

  constructor(labels: MeterLabels) {
    this.labels = labels
  }

  /** Of the engines that are open, and what those have done that are not. */
  get stats(): EngineStats {
    return [...this.#engines].map(({ stats }) => stats).reduce(addStats, this.#past)
  }

  get isOpen(): boolean {
    return this.#engines.size > 0
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

  /** Whether there ever was an engine. */
  get hasOpened(): boolean {
    return this.#hasOpened
  }

  opened(engine: Engine): void {
    this.#hasOpened = true
    this.#engines.add(engine)
  }

  closed(engine: Engine): void {
    if (this.#engines.delete(engine)) this.#past = addStats(this.#past, withoutPresent(engine.stats))
  }
}

/** The clock of a call that is counted when it is over. */
export class MeteredCall extends CallTiming {
  readonly #meter: RouteMeter

  constructor(meter: RouteMeter) {
    super()
    this.#meter = meter
  }

  /** It was answered. */
  answered(): void {
    this.#count('ok')
  }

  override failed(code: string): void {
    this.#count(outcomeOf(code))
  }

  #count(outcome: Outcome): void {
    const { outcomes, queueMs, guestMs } = this.#meter
    outcomes.count(outcome)
    const ran = this.guestMs
    if (ran === undefined) return
    guestMs.observe(ran)
    queueMs.observe(this.queueMs ?? 0)
  }
}
