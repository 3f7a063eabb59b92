import { countsOf, histogramsOf, RouteMetrics } from './counters.ts'
import { type EngineStats, NO_STATS } from './engine-stats.ts'
import type { MeterLabels, Meters, RouteMeter } from './metrics.ts'

/** The counts of one version on one route since the start of its process, as data. */
export interface MeterReport {
  readonly labels: MeterLabels
  /** Counts of outcomes, outbound requests, store operations, streams, WebSockets, and of the histograms. */
  readonly counts: readonly Float64Array[]
  /** Sums of the histograms, in milliseconds. */
  readonly sums: readonly number[]
  readonly stats: EngineStats
  readonly isOpen: boolean
}

export function reportMeters({ all }: Pick<Meters, 'all'>): MeterReport[] {
  return all.map((meter) => ({
    labels: meter.labels,
    counts: countsOf(meter).map((counts) => counts.slice()),
    sums: histogramsOf(meter).map(({ sum }) => sum),
    stats: meter.stats,
    isOpen: meter.isOpen,
  }))
}

/** Adds the reports of one process to meters of another, each count once. */
export class ReportedMeters {
  readonly #targets: readonly Meters[]
  #known = new Map<string, Known>()

  constructor(...targets: readonly Meters[]) {
    this.#targets = targets
  }

  /** A version that is missing has lost its own labels: its counts are now part of others. */
  add(reports: readonly MeterReport[]): void {
    const now = new Map<string, Known>()
    for (const report of reports) {
      const key = JSON.stringify(report.labels)
      const before = this.#known.get(key) ?? { ...NOTHING, labels: report.labels, sources: undefined }
      this.#known.delete(key)
      this.#addCounts(report, before)
      now.set(key, { ...report, ...this.#followEngines(report, before) })
    }
    for (const gone of this.#known.values()) {
      this.#addCounts({ ...gone, counts: [], sums: [] }, gone)
      this.#followEngines({ ...gone, stats: NO_STATS, isOpen: false }, gone)
    }
    this.#known = now
  }

  /** The process has ended: its counts stay. */
  end(): void {
    for (const known of this.#known.values()) {
      this.#followEngines({ ...known, isOpen: false }, known)
      this.#closeSockets(known)
    }
    this.#known.clear()
  }

  #addCounts(report: Pick<MeterReport, 'labels' | 'counts' | 'sums'>, before: Known): void {
    const more = new RouteMetrics()
    let isChanged = false
    for (const [place, counts] of countsOf(more).entries()) {
      for (let index = 0; index < counts.length; index++) {
        const change = (report.counts[place]?.[index] ?? 0) - (before.counts[place]?.[index] ?? 0)
        counts[index] = change
        isChanged ||= change !== 0
      }
    }
    if (!isChanged) return
    for (const [place, histogram] of histogramsOf(more).entries())
      histogram.sum = (report.sums[place] ?? 0) - (before.sums[place] ?? 0)
    for (const meters of this.#targets) meterOf(meters, report.labels).add(more)
  }

  /** A process takes its connections with it. */
  #closeSockets({ labels, counts }: Known): void {
    const counted = new RouteMetrics()
    for (const [place, to] of countsOf(counted).entries()) to.set(counts[place] ?? [])
    const { sockets } = counted
    const open = sockets.of('opened') - sockets.of('closed')
    if (open <= 0) return
    const more = new RouteMetrics()
    more.sockets.count('closed', open)
    more.sockets.count('close 1006', open)
    for (const meters of this.#targets) meterOf(meters, labels).add(more)
  }

  /** The engines of a version are one source while some are open. What it had counted before is not counted again. */
  #followEngines(
    { labels, isOpen, stats }: Pick<MeterReport, 'labels' | 'isOpen' | 'stats'>,
    { sources, past }: Known,
  ): Pick<Known, 'sources' | 'past'> {
    if (!isOpen && !sources) return { sources, past }
    const source = sources ?? { stats: NO_STATS }
    source.stats = without(stats, past)
    if (!sources) for (const meters of this.#targets) meterOf(meters, labels).opened(source)
    if (isOpen) return { sources: source, past }
    for (const meters of this.#targets) meterOf(meters, labels).closed(source)
    return { sources: undefined, past: stats }
  }
}

interface Known extends MeterReport {
  readonly sources: { stats: EngineStats } | undefined
  /** What earlier sources have counted. */
  readonly past: EngineStats
}

const NOTHING = { counts: [], sums: [], stats: NO_STATS, past: NO_STATS, isOpen: false } as const

function meterOf(meters: Meters, labels: MeterLabels): RouteMeter {
  return meters.find(labels) ?? meters.of(labels)
}

function without(stats: EngineStats, past: EngineStats): EngineStats {
  return {
    ...stats,
    recycled: stats.recycled - past.recycled,
    restarted: stats.restarted - past.restarted,
    timeouts: stats.timeouts - past.timeouts,
    droppedLines: stats.droppedLines - past.droppedLines,
    checks: stats.checks - past.checks,
  }
}
