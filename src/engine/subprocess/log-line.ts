import type { GuestLogLevel, Log } from '../../observe/log/guest-log.ts'
import { unpack } from './packed.ts'

const LEVELS: ReadonlySet<unknown> = new Set<GuestLogLevel>(['trace', 'debug', 'info', 'warn', 'error'])

/** Fields that a guest's line may have, with their kinds. */
const FIELDS = { function: 'string', dropped: 'number', perSecond: 'number', reason: 'string' } as const

/** Characters of a line: a guest's are cut before they come here. */
const MAX_LINE = 16_384

/**
 * Writes a line of a process to a log, with no other fields than a guest's lines have.
 *
 * @throws RangeError if it is no line.
 */
export function writeLine(packed: Uint8Array, plugin: string, log: Log): void {
  const line = unpack(packed)
  if (!Array.isArray(line)) throw new RangeError('it is no line')
  const [level, fields, message] = line
  if (!isLevel(level) || typeof fields !== 'object' || fields === null || typeof message !== 'string')
    throw new RangeError('it is no line')
  const kept = Object.entries(FIELDS).flatMap(([name, kind]) => {
    const value: unknown = Object.hasOwn(fields, name) ? Reflect.get(fields, name) : undefined
    return typeof value === kind ? [[name, value] as const] : []
  })
  log[level]({ plugin, ...Object.fromEntries(kept) }, message.slice(0, MAX_LINE))
}

function isLevel(value: unknown): value is GuestLogLevel {
  return LEVELS.has(value)
}
