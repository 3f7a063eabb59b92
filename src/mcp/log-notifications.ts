import type { GuestLogLevel, Log } from '../observe/log/guest-log.ts'
import type { Exchange } from './exchange.ts'
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
 * The levels that a client asks for in `_meta`.
 *
 * @returns a function that returns whether a level is one of them; undefined if the client wants no log.
 * @throws {@link RpcError} if there is no such level.
 */
export function wantedLevels(meta: Members): ((level: unknown) => boolean) | undefined {
  const wanted = meta[META.logLevel]
  if (wanted === undefined) return undefined
  const least = LEVELS.indexOf(wanted)
  if (least < 0) throw new RpcError(RPC_CODES.invalidParams, 'Invalid params: unknown log level', 400)
  return (level) => LEVELS.indexOf(level) >= least
}

/** A log that also sends the lines of the guest to a client that wants them. */
export function logFor(meta: Members, log: Log, client: Pick<Exchange, 'notify'>): Log {
  const isWanted = wantedLevels(meta)
  if (!isWanted) return log
  const at = (name: GuestLogLevel) => (fields: object, data: string) => {
    log[name](fields, data)
    const level = LEVEL_OF[name]
    if (isWanted(level)) client.notify('notifications/message', { level, data })
  }
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
