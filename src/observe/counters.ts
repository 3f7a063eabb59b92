import { OUTCOMES, type Outcome } from './observe.ts'

/* What is counted of calls. A new metric is an entry of the class at the end, and of `metrics.ts` of the admin listener. */

/** The result of a guest's HTTP request: the class of its response's status, or a failure. */
const OUTBOUND_RESULTS = [
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

/** What an exchange whose guest streams has done. */
export interface StreamStats {
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
export interface SocketStats {
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
export const CLOSE_CODES = [
  ...(['1000', '1001', '1002', '1003', '1005', '1006', '1007', '1008', '1009'] as const),
  ...(['1011', '1012', '1013', 'other'] as const),
] as const

const SOCKET_COUNTS = [
  ...(['opened', 'closed', 'messagesIn', 'messagesOut', 'bytesIn', 'bytesOut'] as const),
  ...CLOSE_CODES.map((code) => `close ${code}` as const),
] as const

export type SocketCount = (typeof SOCKET_COUNTS)[number]

/** Counters with a fixed set of names, so that the number of labels is bounded. */
class CounterSet<Name extends string> {
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
  add(other: CounterSet<Name>): void {
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
class StreamMetrics {
  readonly counts = new CounterSet<StreamCount>(STREAM_COUNTS)
  /** Histogram of the time to the first byte of the answer, in milliseconds. */
  readonly firstByteMs = new Histogram(EXCHANGE_BOUNDS_MS)
  /** Histogram of the time from the request to the end of the guest, in milliseconds. */
  readonly durationMs = new Histogram(EXCHANGE_BOUNDS_MS)
}

/** Metrics of the calls of a route. */
export class RouteMetrics {
  readonly outcomes = new CounterSet<Outcome>(OUTCOMES)
  /** Histograms of calls whose guests ran, in milliseconds. */
  readonly queueMs = new Histogram(DURATION_BOUNDS_MS)
  readonly guestMs = new Histogram(DURATION_BOUNDS_MS)
  readonly outbound = new CounterSet<OutboundResult>(OUTBOUND_RESULTS)
  readonly kv = new CounterSet<KvResult>(KV_RESULTS)
  readonly streams = new StreamMetrics()
  readonly sockets = new CounterSet<SocketCount>(SOCKET_COUNTS)

  add(other: CountedCalls): void {
    const counts = countsOf(other)
    for (const [place, to] of countsOf(this).entries()) {
      const more = counts[place]
      if (more) addNumbers(to, more)
    }
    const histograms = histogramsOf(other)
    for (const [place, to] of histogramsOf(this).entries()) to.sum += histograms[place]?.sum ?? 0
  }
}

/** The counts, without what adds them. */
export type CountedCalls = Omit<RouteMetrics, 'add'>

/** All counts, those of histograms too, in one order. A process reports them so. */
export function countsOf(metrics: CountedCalls): readonly Float64Array[] {
  const { outcomes, outbound, kv, streams, sockets } = metrics
  const counters = [outcomes, outbound, kv, streams.counts, sockets].map(({ values }) => values)
  return [...counters, ...histogramsOf(metrics).map(({ counts }) => counts)]
}

/** All histograms, in one order: their sums are reported so. */
export function histogramsOf({ queueMs, guestMs, streams }: CountedCalls): readonly Histogram[] {
  return [queueMs, guestMs, streams.firstByteMs, streams.durationMs]
}
