import type { Registry } from 'prom-client'
import { PackageMissingError } from '../errors/errors.ts'
import type { Histogram } from '../observe/metrics.ts'
import { loadPackage, packageVersion } from '../platform/packages.ts'
import type { AdminFeature } from './feature.ts'
import { METRICS, type Metric, type MetricSources } from './metric-table.ts'

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
      ? metric.read(sources).flatMap(([labels, values]) => renderHistogram(name, { ...labels }, values))
      : metric.read(sources).map(([labels, value]) => renderSample(name, labels, value))
  return [`# HELP ${name} ${escapeText(help)}`, `# TYPE ${name} ${type}`, ...lines]
}

type Labels = Readonly<Record<string, string>>

/** In seconds. A bucket has all that is below its bound. */
function renderHistogram(name: string, labels: Labels, { bounds, counts, sum }: Histogram): string[] {
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
