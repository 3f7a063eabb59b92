import { PackageMissingError } from '../errors/errors.ts'
import { packageVersion } from '../platform/package-file.ts'
import { openRegistry } from './prometheus.ts'
import type { AdminRoom } from './room.ts'

/**
 * `/metrics` for Prometheus, which needs no token: it tells no secrets. Without prom-client it says how to get it, and
 * the rest of the listener works.
 */
export const addMetrics: AdminRoom = async (app, { served, meters, log }) => {
  const registry = await openRegistry({ served, meters, version: packageVersion() }).catch(unlessMissing)
  if (registry instanceof Error) log.warn({ code: registry.code }, registry.message)

  app.get('/metrics', { config: { needsNoToken: true } }, async (_request, reply) => {
    if (registry instanceof Error) throw registry
    reply.header('content-type', registry.contentType)
    return registry.metrics()
  })
}

function unlessMissing(error: unknown): InstanceType<typeof PackageMissingError> {
  if (error instanceof PackageMissingError) return Object.assign(error, { statusCode: NOT_IMPLEMENTED })
  throw error
}

const NOT_IMPLEMENTED = 501
