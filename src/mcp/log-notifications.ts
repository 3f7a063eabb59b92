import type { GuestLogLevel, Log } from '../observe/log/guest-log.ts'
import { type Members, RPC_CODES, RpcError } from './json-rpc.ts'
import { META } from './revisions.ts'

/** Levels of MCP, the least severe first. (RFC 5424) */
const LEVELS: readonly unknown[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]

/** The level of a guest's line. */
const LEVEL_OF: Readonly<Record<GuestLogLevel, string>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warning',
  error: 'error',
}

/**
 * The log of a call. If the client asks for a level in `_meta`, it gets the lines of the guest from that level on, besides the
 * log of the server.
 *
 * @param notify - Sends a notification to the client.
 * @throws {@link RpcError} if there is no such level.
 */
export function logFor(meta: Members, log: Log, notify: (method: string, params: object) => void): Log {
  const wanted = meta[META.logLevel]
  if (wanted === undefined) return log
  const least = LEVELS.indexOf(wanted)
  if (least < 0) throw new RpcError(RPC_CODES.invalidParams, 'Invalid params: unknown log level', 400)
  const at = (level: GuestLogLevel) => (fields: object, data: string) => {
    log[level](fields, data)
    const name = LEVEL_OF[level]
    if (LEVELS.indexOf(name) >= least) notify('notifications/message', { level: name, data })
  }
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
