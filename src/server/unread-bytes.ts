import type { Server } from 'node:http'
import type { FastifyBaseLogger } from 'fastify'

/** A connection with requests that have not ended. */
export interface BusyConnection {
  /** Memory that it takes: what its client has not read, what nobody has read of its client, and its requests. */
  readonly bytes: number
  end(): void
}

/** Default maximum. */
const MAX_BYTES = 2 ** 30

/** Interval between two sweeps. A guest makes some 100 MiB of answers in this time. */
const SWEEP_MS = 100

/** A sweep of many requests waits longer for the next one, so that sweeps take a twentieth of the time. */
const SHARE = 20

/** Memory of a request that waits, without its body and its headers. */
export const REQUEST_BYTES = 8_192

/**
 * Limits the memory that clients take by not reading their answers, or with bodies that nobody reads. Beyond the limit the
 * connections that take most are ended: an attacker has to use as many as the server permits to affect others.
 *
 * @param busy - The connections at this moment.
 */
export function limitUnread(
  server: Server,
  busy: () => Iterable<BusyConnection>,
  log: FastifyBaseLogger,
  max: number = MAX_BYTES,
): void {
  const sweep = () => {
    const connections = [...busy()]
    let bytes = connections.reduce((sum, connection) => sum + connection.bytes, 0)
    if (bytes <= max) return
    connections.sort((one, other) => other.bytes - one.bytes)
    let ended = 0
    for (const connection of connections) {
      if (bytes <= max) break
      bytes -= connection.bytes
      connection.end()
      ended++
    }
    log.warn(
      { ended, limit: max },
      'connections that took the most memory were closed: their clients did not read',
    )
  }
  server.on('listening', () => {
    let timer: NodeJS.Timeout
    const next = (ms: number) => {
      timer = setTimeout(() => {
        const begun = performance.now()
        sweep()
        next(Math.max(SWEEP_MS, SHARE * (performance.now() - begun)))
      }, ms).unref()
    }
    next(SWEEP_MS)
    server.once('close', () => clearTimeout(timer))
  })
}
