import type { EngineStats, Histogram, Meters, RouteMeter } from '../observe/metrics.ts'
import type { ServerView } from './feature.ts'
import { whyNotReady } from './readiness.ts'

/** What metrics are read from. */
export interface MetricSources {
  readonly meters: Meters
  readonly served: ServerView
  readonly version: string
}

/** Labels with their values, and a number. */
export type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

interface MetricBase {
  readonly name: string
  /** What it is, and its unit. */
  readonly help: string
  readonly labels: readonly string[]
}

/** One metric, read when it is asked for. */
export type Metric =
  | (MetricBase & { readonly type: 'counter' | 'gauge'; read(sources: MetricSources): Sample[] })
  | (MetricBase & {
      readonly type: 'histogram'
      /** Its values are milliseconds; what is shown are seconds. */
      read(sources: MetricSources): (readonly [labels: RouteMeter['labels'], values: Histogram])[]
    })

/** Which version of which route. */
const ROUTE = ['route', 'plugin', 'digest'] as const

/** The only description of the metrics of wasm-serve: `docs/operations.md` has it as a table. */
export const METRICS: readonly Metric[] = [
  {
    type: 'counter',
    name: 'wasm_serve_calls_total',
    help: 'Calls of guests that have ended, by outcome: ok, guest_error, trap, timeout, queue_full and so on',
    labels: [...ROUTE, 'outcome'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, outcomes }) =>
        outcomes.names.map((outcome): Sample => [{ ...labels, outcome }, outcomes.of(outcome)]),
      ),
  },
  {
    type: 'histogram',
    name: 'wasm_serve_queue_wait_seconds',
    help: 'How long calls waited for an instance, in seconds; with threads, the way there and back too',
    labels: ROUTE,
    read: ({ meters }) => meters.all.map(({ labels, queueMs }) => [labels, queueMs]),
  },
  {
    type: 'histogram',
    name: 'wasm_serve_guest_seconds',
    help: 'How long guests ran, in seconds, whatever the outcome',
    labels: ROUTE,
    read: ({ meters }) => meters.all.map(({ labels, guestMs }) => [labels, guestMs]),
  },
  ofEngines('gauge', 'queue_length', 'Calls that wait for an instance', ({ waiting }) => waiting),
  ofEngines(
    'gauge',
    'running_calls',
    'Calls that instances have; threads have some ahead',
    ({ running }) => running,
  ),
  ofEngines('gauge', 'instances', 'Instances that are open, spare ones too', ({ instances }) => instances),
  ofEngines(
    'gauge',
    'guest_memory_bytes',
    'Memory of the guests, in bytes; what a module does not export cannot be seen',
    ({ guestBytes }) => guestBytes,
  ),
  ofEngines(
    'gauge',
    'kernel_memory_bytes',
    'Memory by which guests and host exchange bytes, in bytes',
    ({ kernelBytes }) => kernelBytes,
  ),
  ofEngines(
    'counter',
    'restarts_total',
    'Instances and threads that were replaced because they failed, or ran too long',
    ({ restarted }) => restarted,
  ),
  ofEngines(
    'counter',
    'recycles_total',
    'Instances that were replaced after they had served as long as they should',
    ({ recycled }) => recycled,
  ),
  ofEngines(
    'counter',
    'timeouts_total',
    'Guests that were ended because they ran longer than timeoutMs',
    (stats) => stats.timeouts,
  ),
  ofEngines(
    'gauge',
    'breaker_open',
    '1 if calls are refused because no instance can be started, else 0',
    ({ isBreakerOpen }) => (isBreakerOpen ? 1 : 0),
  ),
  ofEngines(
    'gauge',
    'stuck_threads',
    'Threads that cannot be ended: they are in native calls; those of earlier pools of the same plug-in and of trials too',
    ({ stuck }) => stuck,
  ),
  ofEngines(
    'counter',
    'dropped_log_lines_total',
    'Lines that guests logged beyond the 100 of a call, or beyond logRate, and that were not written',
    ({ droppedLines }) => droppedLines,
  ),
  {
    type: 'counter',
    name: 'wasm_serve_outbound_requests_total',
    help: 'HTTP requests of guests, by result: 2xx and so on, invalid, refused, timeout, too_large, failed',
    labels: [...ROUTE, 'result'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, outbound }) =>
        outbound.counted.map(([result, times]): Sample => [{ ...labels, result }, times]),
      ),
  },
  {
    type: 'counter',
    name: 'wasm_serve_kv_operations_total',
    help: 'What guests did with the store, by operation and result: ok, forbidden, invalid, too-large, full, unavailable',
    labels: [...ROUTE, 'operation', 'result'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, kv }) =>
        kv.counted.map(([name, times]): Sample => {
          const [operation = '', result = ''] = name.split(' ')
          return [{ ...labels, operation, result }, times]
        }),
      ),
  },
  {
    type: 'counter',
    name: 'wasm_serve_reloads_total',
    help: 'Reloads of plug-ins and configuration, by result: ok, refused (the old one goes on)',
    labels: ['result'],
    read: ({ meters: { reloads } }) =>
      reloads.names.map((result): Sample => [{ result }, reloads.of(result)]),
  },
  {
    type: 'gauge',
    name: 'wasm_serve_ready',
    help: '1 if /readyz says so, else 0',
    labels: [],
    read: ({ served }) => [[{}, whyNotReady(served).length === 0 ? 1 : 0]],
  },
  {
    type: 'gauge',
    name: 'wasm_serve_routes',
    help: 'Routes that are served',
    labels: [],
    read: ({ served }) => [[{}, served.routes.length]],
  },
  {
    type: 'gauge',
    name: 'wasm_serve_info',
    help: 'Always 1; the label is the version of wasm-serve',
    labels: ['version'],
    read: ({ version }) => [[{ version }, 1]],
  },
]

/** One that the engines know: 0 where none is open. */
function ofEngines(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  of: (stats: EngineStats) => number,
): Metric {
  return {
    type,
    name: `wasm_serve_${name}`,
    help,
    labels: ROUTE,
    read: ({ meters }) =>
      meters.all
        .filter(({ isOpen }) => isOpen || type === 'counter')
        .map(({ labels, stats }): Sample => [{ ...labels }, of(stats)]),
  }
}
