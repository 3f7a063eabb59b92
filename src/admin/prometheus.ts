import type { MetricType, PrometheusContentType, Registry } from 'prom-client'
import type { Histogram } from '../observe/histogram.ts'
import { loadPackage } from '../platform/optional-package.ts'
import { METRICS, type MetricSources } from './metric-table.ts'

/**
 * The door to prom-client: a registry of {@link METRICS}, and of its own metrics of the process and of Node.js. Nothing
 * is counted by it: all is read when it is asked for.
 *
 * @throws {@link PackageMissingError}
 */
export async function openRegistry(sources: MetricSources): Promise<Registry<PrometheusContentType>> {
  const { default: prom } = await loadPackage('/metrics', 'prom-client', () => import('prom-client'))
  const registry = new prom.Registry()
  const registers = [registry]
  prom.collectDefaultMetrics({ register: registry })

  for (const metric of METRICS) {
    const { type, name, help, labels: labelNames } = metric
    const config = { name, help, labelNames, registers }
    if (type === 'histogram') {
      const values = () => metric.read(sources).flatMap((read) => bucketsOf(name, ...read))
      // The registry calls the second in the place of the first where there is one.
      const get = async () => ({ name, help, type: 'histogram' as unknown as MetricType, values: values() })
      Object.assign(new prom.Histogram(config), { get, getForPromString: get })
    } else if (type === 'gauge') {
      const gauge = new prom.Gauge({
        ...config,
        collect() {
          gauge.reset()
          for (const [labels, value] of metric.read(sources)) gauge.inc(labels, value) // some may have equal labels
        },
      })
    } else {
      const counter = new prom.Counter({
        ...config,
        collect() {
          counter.reset()
          for (const [labels, value] of metric.read(sources)) counter.inc(labels, value)
        },
      })
    }
  }
  return registry
}

/** One line of the text. */
interface Line {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/** In seconds, and each bucket with all that is below it. */
function bucketsOf(name: string, labels: object, { bounds, counts, sum }: Histogram): Line[] {
  let total = 0
  const lines = [...counts].map((count, place): Line => {
    total += count
    const bound = bounds[place]
    const le = bound === undefined ? '+Inf' : bound / 1_000
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: total }
  })
  return [
    ...lines,
    { metricName: `${name}_sum`, labels: { ...labels }, value: sum / 1_000 },
    { metricName: `${name}_count`, labels: { ...labels }, value: total },
  ]
}
