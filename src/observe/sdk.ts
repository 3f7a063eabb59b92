import { setTimeout as sleep } from 'node:timers/promises'
import { loadOtelPackage } from './otel-package.ts'

/** How long the last spans may take on their way. */
const FLUSH_MS = 1_000

/** Where the spans of the process go. */
export interface TracingSdk {
  /** Sends what is left. What cannot be sent in time is lost. */
  close(): Promise<void>
}

/**
 * Starts OpenTelemetry's SDK for traces, as the standard variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`,
 * `OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME` and so on). To be called before anything that makes spans is opened.
 *
 * @throws {@link PackageMissingError}
 */
export async function startTracingSdk(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<TracingSdk> {
  const name = '@opentelemetry/sdk-node'
  const { NodeSDK } = await loadOtelPackage(name, () => import('@opentelemetry/sdk-node'))
  const { OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES = '' } = environment
  const isNamed = OTEL_SERVICE_NAME !== undefined || /(?:^|,)\s*service\.name=/.test(OTEL_RESOURCE_ATTRIBUTES)
  const sdk = new NodeSDK({
    ...(!isNamed && { serviceName: 'wasm-serve' }),
    metricReaders: [], // /metrics has them
    logRecordProcessors: [],
  })
  sdk.start()
  return {
    async close() {
      const sent = sdk.shutdown().catch(() => undefined) // a collector that is gone keeps nobody from ending
      await Promise.race([sent, sleep(FLUSH_MS, undefined, { ref: false })])
    },
  }
}
