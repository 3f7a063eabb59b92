import { isDeepStrictEqual } from 'node:util'
import type { CheckedServerOptions } from '../options/options.ts'

/** Options of what stays when routes change: sockets, the store, the admin listener. They count from the next start. */
const AT_START = [
  ...['host', 'port', 'socket', 'tls', 'http2', 'maxConnections', 'headersTimeoutMs', 'requestTimeoutMs'],
  ...['keepAliveTimeoutMs', 'unreadTimeoutMs', 'drainMs', 'graceMs', 'stallMs', 'watch'],
  ...[
    'store',
    'storeMax',
    'storeTimeoutMs',
    'admin',
    'adminToken',
    'adminHosts',
    'state',
    'uploadLimit',
    'otel',
  ],
]

/**
 * Options of a reload with those of the start where nothing else is possible.
 *
 * @returns Also the names of those that are wanted and have to wait.
 */
export function keepWhatStays<Options extends CheckedServerOptions>(
  wanted: Options,
  atStart: CheckedServerOptions,
): { options: Options; waiting: readonly string[] } {
  const now = atStart as unknown as Readonly<Record<string, unknown>>
  const options = { ...wanted } as unknown as Record<string, unknown>
  const waiting = AT_START.filter((name) => !isDeepStrictEqual(options[name], now[name]))
  for (const name of waiting) {
    if (name in now) options[name] = now[name]
    else delete options[name]
  }
  return { options: options as unknown as Options, waiting }
}
