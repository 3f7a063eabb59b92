import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { AdminRequestError, PackageMissingError } from '../errors/errors.ts'
import type { Histogram } from '../observe/counters.ts'
import type { Meters } from '../observe/metrics.ts'
import { loadPackage } from '../platform/optional-package.ts'
import { packageVersion } from '../platform/packages.ts'
import type { ProbeContext } from './feature.ts'
import { METRICS, type Metric, type MetricSources } from './metric-list.ts'

/**
 * `/metrics` for Prometheus. It needs no token, because it contains no secrets. Values are read on each scrape. If
 * prom-client is installed, its metrics of the process and of Node.js are included. With serving processes the call
 * metrics are their sum; `?by=process` has them for each process, with a label.
 */
export async function addMetrics(
  app: FastifyInstance,
  { served, meters, log, processes }: ProbeContext,
): Promise<void> {
  processMetrics ??= openProcessMetrics()
  const registry = await processMetrics.catch(unlessMissing)
  if (registry instanceof Error) log.info({ code: registry.code }, registry.message)
  const sources = { served, meters, version: packageVersion() }

  app.get('/metrics', { config: { needsNoToken: true } }, async ({ query }, reply) => {
    const { by } = query as { readonly by?: unknown }
    if (by !== undefined && by !== 'process') throw new AdminRequestError('by must be process')
    await processes?.refresh()
    reply.header('content-type', TEXT_FORMAT)
    const parts = by === undefined ? undefined : processes?.meters
    const own = renderMetrics(METRICS, sources, parts)
    return registry instanceof Error ? own : `${await registry.metrics()}\n${own}`
  })
}

const TEXT_FORMAT = 'text/plain; version=0.0.4; charset=utf-8'

/** One for the process, because two would observe Node.js twice. */
let processMetrics: Promise<Registry> | undefined

/** @throws {@link PackageMissingError} */
async function openProcessMetrics(): Promise<Registry> {
  const purpose = 'a report on the process and Node.js'
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
 * Renders metrics in the Prometheus text format.
 * (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format)
 *
 * @param processes - Meters of processes by number: then metrics of routes have the label `process`, and are no sums.
 */
export function renderMetrics(
  metrics: readonly Metric[],
  sources: MetricSources,
  processes?: ReadonlyMap<number, Meters>,
): string {
  const now = fixed(sources)
  const parts = [...(processes ?? [])].map(
    ([number, meters]) => [{ process: String(number) }, fixed({ ...sources, meters })] as const,
  )
  const render = (metric: Metric) =>
    renderMetric(metric, processes && metric.labels.includes('route') ? parts : [[{}, now]])
  return metrics.map((metric) => `${render(metric).join('\n')}\n`).join('\n')
}

/** Adds up the meters once: for each metric it would take long with thousands of routes. */
function fixed({ meters: { all }, ...sources }: MetricSources): MetricSources {
  return { ...sources, meters: { all } }
}

/** @param parts - The sources, each with labels for its samples. */
function renderMetric(metric: Metric, parts: readonly (readonly [Labels, MetricSources])[]): string[] {
  const { name, help, type } = metric
  const lines = parts.flatMap(([part, sources]) =>
    metric.type === 'histogram'
      ? metric
          .read(sources)
          .flatMap(([labels, values]) => renderMetricHistogram(name, { ...part, ...labels }, values))
      : metric.read(sources).map(([labels, value]) => renderSample(name, { ...part, ...labels }, value)),
  )
  return [`# HELP ${name} ${escapeText(help)}`, `# TYPE ${name} ${type}`, ...lines]
}

type Labels = Readonly<Record<string, string>>

/** Bucket bounds in seconds. A bucket contains all values below its bound. */
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
