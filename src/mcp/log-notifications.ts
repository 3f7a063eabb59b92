import type { GuestLogLevel, Log } from '../observe/log/guest-log.ts'
import type { Exchange } from './exchange.ts'
import { RPC_CODES, RpcError } from './json-rpc.ts'

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
 * The levels that a client asks for.
 *
 * @param least - The least severe one. undefined: it wants no log.
 * @returns a function that returns whether a level is one of them.
 * @throws {@link RpcError} if there is no such level.
 */
export function levelsFrom(least: unknown): ((level: unknown) => boolean) | undefined {
  if (least === undefined) return undefined
  const first = LEVELS.indexOf(least)
  if (first < 0) throw new RpcError(RPC_CODES.invalidParams, 'Invalid params: unknown log level', 400)
  return (level) => LEVELS.indexOf(level) >= first
}

/** A log that also sends the lines of the guest to a client that wants them. */
export function logFor(log: Log, client: Pick<Exchange, 'notify' | 'wantsLevel'>): Log {
  const { wantsLevel } = client
  if (!wantsLevel) return log
  const at = (name: GuestLogLevel) => (fields: object, data: string) => {
    log[name](fields, data)
    const level = LEVEL_OF[name]
    if (wantsLevel(level)) client.notify('notifications/message', JSON.stringify({ level, data }))
  }
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
