import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** What may be repeated in headers and logs without a second thought. */
const SANE = /^[\w.~:@+/=-]{1,128}$/

/** The client's `x-request-id` if it is sane, else a new one. */
export function requestId({ headers }: IncomingMessage): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && SANE.test(given) ? given : randomUUID()
}
