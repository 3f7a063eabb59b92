import type { Registry } from 'prom-client'
import { PackageMissingError } from '../errors/errors.ts'
import type { EngineStats, Histogram, Meters, RouteMeter } from '../observe/metrics.ts'
import { loadPackage, packageVersion } from '../platform/packages.ts'
import type { AdminFeature, ServerView } from './feature.ts'
import { whyNotReady } from './health.ts'

/**
 * `/metrics` for Prometheus, which needs no token: it contains no secrets. Everything is read when it is asked for.
 * With prom-client it also has that package's metrics of the process and of Node.js.
 */
export const addMetrics: AdminFeature = async (app, { served, meters, log }) => {
  const registry = await openProcessMetrics().catch(unlessMissing)
  if (registry instanceof Error) log.info({ code: registry.code }, registry.message)
  const sources = { served, meters, version: packageVersion() }

  app.get('/metrics', { config: { needsNoToken: true } }, async (_request, reply) => {
    reply.header('content-type', TEXT_FORMAT)
    const own = renderMetrics(METRICS, sources)
    return registry instanceof Error ? own : `${await registry.metrics()}\n${own}`
  })
}

const TEXT_FORMAT = 'text/plain; version=0.0.4; charset=utf-8'

/** @throws {@link PackageMissingError} */
async function openProcessMetrics(): Promise<Registry> {
  const purpose = 'the metrics of the process and of Node.js'
  const { default: prom } = await loadPackage(purpose, 'prom-client', () => import('prom-client'))
  const register = new prom.Registry()
  prom.collectDefaultMetrics({ register })
  return register
}

function unlessMissing(error: unknown): InstanceType<typeof PackageMissingError> {
  if (error instanceof PackageMissingError) return error
  throw error
}

/**
 * Renders metrics in the text format of Prometheus.
 * (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format)
 */
export function renderMetrics(metrics: readonly Metric[], sources: MetricSources): string {
  return metrics.map((metric) => `${renderMetric(metric, sources).join('\n')}\n`).join('\n')
}

function renderMetric(metric: Metric, sources: MetricSources): string[] {
  const { name, help, type } = metric
  const lines =
    metric.type === 'histogram'
      ? metric.read(sources).flatMap(([labels, values]) => renderMetricHistogram(name, { ...labels }, values))
      : metric.read(sources).map(([labels, value]) => renderSample(name, labels, value))
  return [`# HELP ${name} ${escapeText(help)}`, `# TYPE ${name} ${type}`, ...lines]
}

type Labels = Readonly<Record<string, string>>

/** In seconds. A bucket has all that is below its bound. */
function renderMetricHistogram(name: string, labels: Labels, { bounds, counts, sum }: Histogram): string[] {
  let total = 0
  const buckets = [...counts].map((count, place) => {
    total += count
    const bound = bounds[place]
    const le = bound === undefined ? '+Inf' : `${bound / 1_000}`
    return renderSample(`${name}_bucket`, { ...labels, le }, total)
  })
  return [
    ...buckets,
    renderSample(`${name}_sum`, labels, sum / 1_000),
    renderSample(`${name}_count`, labels, total),
  ]
}

function renderSample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
}

function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function escapeLabel(text: string): string {
  return escapeText(text).replaceAll('"', '\\"')
}

/** What metrics are read from. */
interface MetricSources {
  readonly meters: Meters
  readonly served: ServerView
  readonly version: string
}

/** Labels with their values, and a number. */
type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

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

/** The only description of the metrics of wasm-serve: `docs/operate/metrics-and-logs.md` has it as a table. */
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
