import { type CallTimes, isFailure, OUTCOMES, type Outcome } from './observe.ts'

/** Number of versions with labels of their own: those that were called first. */
const MAX_OWN = 1_000

/** Number of them that may be old. */
const MAX_PAST = 100

/** The labels of the others together, which bound the size of an answer with thousands of routes or after years of reloads. */
const OTHERS: MeterLabels = { route: 'other', plugin: 'other', digest: 'other' }

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

/** @param route - URL of the route, after its host if it has one. @param plugin - Name of the plug-in. */
export function meterLabels(route: string, plugin: string, digest: string): MeterLabels {
  return { route, plugin, digest: digest.slice(0, 12) }
}

/** Counters of the calls of one version on one route. Unlike figures, they are never shared with other routes. */
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
export interface MeterView extends Omit<Figures, 'add'> {
  readonly labels: MeterLabels
  /** Statistics of open engines, plus the counters of closed ones. */
  readonly stats: EngineStats
  readonly isOpen: boolean
}

/** Per-route call metrics, kept across reloads. Only active with `--admin` or `--probes`. */
export class Meters {
  /** Reloads of files or configuration and changes by the API, by result. */
  readonly reloads = new Counts<(typeof RELOAD_RESULTS)[number]>(RELOAD_RESULTS)
  /** The figures of a version that was not called. */
  readonly nothing = new Figures()
  readonly #meters = new Map<string, RouteMeter>()
  /** Meters without an engine, in the order in which their engines were closed. */
  readonly #past = new Map<string, RouteMeter>()
  readonly #figuresOfOthers = new Figures()
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
    const { outcomes, queueMs, guestMs, outbound, kv, streams, sockets } = this.#figuresOfOthers
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

  /** Called by a meter's first count. @returns its own figures, or those of the others. */
  figuresOf(): { readonly figures: Figures; readonly isShared: boolean } {
    if (this.#own < MAX_OWN) {
      this.#own++
      return { figures: new Figures(), isShared: false }
    }
    this.#hasOthers = true
    return { figures: this.#figuresOfOthers, isShared: true }
  }

  /** Called by a meter when its last engine has closed. */
  left(meter: RouteMeter): void {
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
    this.#figuresOfOthers.add(meter)
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
  #figures: Figures | undefined
  #isShared = false
  #past = NO_STATS
  #hasOpened = false

  /** @param meters - Has the figures of versions without labels of their own. */
  constructor(labels: MeterLabels, meters: Meters) {
    this.labels = labels
    this.#meters = meters
  }

  get outcomes(): Figures['outcomes'] {
    return (this.#figures ?? this.#meters.nothing).outcomes
  }

  get queueMs(): Histogram {
    return (this.#figures ?? this.#meters.nothing).queueMs
  }

  get guestMs(): Histogram {
    return (this.#figures ?? this.#meters.nothing).guestMs
  }

  get outbound(): Figures['outbound'] {
    return (this.#figures ?? this.#meters.nothing).outbound
  }

  get kv(): Figures['kv'] {
    return (this.#figures ?? this.#meters.nothing).kv
  }

  get streams(): Figures['streams'] {
    return (this.#figures ?? this.#meters.nothing).streams
  }

  get sockets(): Figures['sockets'] {
    return (this.#figures ?? this.#meters.nothing).sockets
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
    return this.#figures !== undefined && !this.#isShared
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
    const figures = this.#counted()
    figures.outcomes.count(outcome)
    this.totals.calls++
    if (isFailure(outcome)) this.totals.failures++
    const { guestMs } = times
    if (guestMs === undefined) return
    this.totals.guestMs += guestMs
    figures.guestMs.observe(guestMs)
    figures.queueMs.observe(times.queueMs ?? 0)
  }

  /** Adds what was counted elsewhere. */
  add(figures: Figures): void {
    this.#counted().add(figures)
    for (const [outcome, times] of figures.outcomes.entries) {
      this.totals.calls += times
      if (isFailure(outcome)) this.totals.failures += times
    }
    this.totals.guestMs += figures.guestMs.sum
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
  countStream({ received, sent, firstByteMs, isBroken }: StreamFigures, ms: number): void {
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
    if (!this.isOpen) this.#meters.left(this)
  }

  /** Removes it if it never had an engine: there may be any number of versions that were never served. */
  release(): void {
    if (!this.#hasOpened) this.#meters.left(this)
  }

  #counted(): Figures {
    if (this.#figures) return this.#figures
    const { figures, isShared } = this.#meters.figuresOf()
    this.#figures = figures
    this.#isShared = isShared
    return figures
  }
}

/** The result of a guest's HTTP request: the class of its response's status, or a failure. */
const OUTBOUND_RESULTS = [
  ...(['1xx', '2xx', '3xx', '4xx', '5xx'] as const),
  ...(['invalid', 'refused', 'timeout', 'too_large', 'failed'] as const),
] as const

export type OutboundResult = (typeof OUTBOUND_RESULTS)[number]

const KV_OPERATIONS = ['get', 'set', 'delete', 'list', 'compareAndSwap'] as const
const KV_OPERATION_RESULTS = ['ok', 'forbidden', 'invalid', 'too-large', 'full', 'unavailable'] as const

/** An operation of a guest on the store and its result, with a space between them. */
type KvResult = `${(typeof KV_OPERATIONS)[number]} ${(typeof KV_OPERATION_RESULTS)[number]}`

const KV_RESULTS: readonly KvResult[] = KV_OPERATIONS.flatMap((operation) =>
  KV_OPERATION_RESULTS.map((result) => `${operation} ${result}` as const),
)

/** What an exchange whose guest streams has done. */
export interface StreamFigures {
  /** Bytes of the request's body that have arrived. */
  readonly received: number
  /** Bytes of the answer's body that the guest has written. */
  readonly sent: number
  /** Time from the request to the first byte of the answer's body, in ms; undefined before. */
  readonly firstByteMs: number | undefined
  /** Whether its answer was broken off. */
  readonly isBroken: boolean
}

const STREAM_COUNTS = ['exchanges', 'received', 'sent', 'broken'] as const

type StreamCount = (typeof STREAM_COUNTS)[number]

/** What a WebSocket has done. */
export interface SocketFigures {
  /** Bytes of the messages that the client has sent. */
  readonly received: number
  /** Bytes of the messages that were sent to it. */
  readonly sent: number
  readonly receivedMessages: number
  readonly sentMessages: number
  /** undefined while it is open. 1006: it was lost. */
  readonly closeCode: number | undefined
}

/** The codes that are counted. (RFC 6455, section 7.4.1) */
const CLOSE_CODES = [
  ...(['1000', '1001', '1002', '1003', '1005', '1006', '1007', '1008', '1009'] as const),
  ...(['1011', '1012', '1013', 'other'] as const),
] as const

const SOCKET_COUNTS = [
  ...(['opened', 'closed', 'messagesIn', 'messagesOut', 'bytesIn', 'bytesOut'] as const),
  ...CLOSE_CODES.map((code) => `close ${code}` as const),
] as const

type SocketCount = (typeof SOCKET_COUNTS)[number]

/** Counters with a fixed set of names, so that the number of labels is bounded. */
class Counts<Name extends string> {
  readonly names: readonly Name[]
  /** Counts in the order of the names. */
  readonly values: Float64Array
  readonly #places: ReadonlyMap<string, number>

  constructor(names: readonly Name[]) {
    this.names = names
    this.values = new Float64Array(names.length)
    this.#places = new Map(names.map((name, place) => [name, place]))
  }

  count(name: Name, times = 1): void {
    const place = this.#places.get(name) ?? -1
    if (place >= 0) this.values[place] = (this.values[place] as number) + times
  }

  of(name: Name): number {
    return this.values[this.#places.get(name) ?? -1] ?? 0
  }

  get entries(): [name: Name, times: number][] {
    return this.names.map((name) => [name, this.of(name)])
  }

  /** Counts that are not 0. */
  get counted(): [name: Name, times: number][] {
    return this.entries.filter(([, times]) => times > 0)
  }

  /** @param other - With the same names in the same order. */
  add(other: Counts<Name>): void {
    addNumbers(this.values, other.values)
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
    addNumbers(this.counts, other.counts)
    this.sum += other.sum
  }
}

/** An iterator would make the sum of a thousand histograms hold the event loop for milliseconds. */
function addNumbers(to: Float64Array, more: Float64Array): void {
  for (let place = 0; place < more.length; place++)
    to[place] = (to[place] as number) + (more[place] as number)
}

/** Bucket bounds in milliseconds: half of them for computing guests, half for waiting guests. */
export const DURATION_BOUNDS_MS: readonly number[] = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
]

/** Bucket bounds in milliseconds of exchanges with streams, which may take an hour. */
const EXCHANGE_BOUNDS_MS: readonly number[] = [
  ...[1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000],
  ...[30_000, 60_000, 300_000, 1_800_000, 3_600_000],
]

/** What is counted of exchanges whose guests stream. */
class StreamTotals {
  readonly counts = new Counts<StreamCount>(STREAM_COUNTS)
  /** Histogram of the time to the first byte of the answer, in milliseconds. */
  readonly firstByteMs = new Histogram(EXCHANGE_BOUNDS_MS)
  /** Histogram of the time from the request to the end of the guest, in milliseconds. */
  readonly durationMs = new Histogram(EXCHANGE_BOUNDS_MS)

  add(other: StreamTotals): void {
    this.counts.add(other.counts)
    this.firstByteMs.add(other.firstByteMs)
    this.durationMs.add(other.durationMs)
  }
}

/** Metrics of calls. */
export class Figures {
  readonly outcomes = new Counts<Outcome>(OUTCOMES)
  /** Histograms of calls whose guests ran, in milliseconds. */
  readonly queueMs = new Histogram(DURATION_BOUNDS_MS)
  readonly guestMs = new Histogram(DURATION_BOUNDS_MS)
  readonly outbound = new Counts<OutboundResult>(OUTBOUND_RESULTS)
  readonly kv = new Counts<KvResult>(KV_RESULTS)
  readonly streams = new StreamTotals()
  readonly sockets = new Counts<SocketCount>(SOCKET_COUNTS)

  add(other: Omit<Figures, 'add'>): void {
    this.outcomes.add(other.outcomes)
    this.queueMs.add(other.queueMs)
    this.guestMs.add(other.guestMs)
    this.outbound.add(other.outbound)
    this.kv.add(other.kv)
    this.streams.add(other.streams)
    this.sockets.add(other.sockets)
  }
}

/** An engine's current state and its counters since it was opened. Computed on each read. */
export interface EngineStats {
  /** Queued calls. */
  readonly waiting: number
  /** Calls assigned to instances: on the event loop one, or all whose guests are suspended; a thread may have some in advance. */
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

/** Adds two statistics. Returns one unchanged if the other is empty. */
export function addStats(one: EngineStats, other: EngineStats): EngineStats {
  if (one === NO_STATS) return other
  if (other === NO_STATS) return one
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

declare module 'fastify' {
  interface FastifyRequest {
    /** Present if its guest streams. */
    streamFigures?: StreamFigures
    /** Present if it became a WebSocket. */
    socketFigures?: SocketFigures
  }
}
