import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** Headers of a request; a transport without headers has none. */
export type RequestHeaders = Pick<IncomingHttpHeaders, string> | undefined

const BRIDGE_HEADER = 'wasm-serve-bridge'

/** A secret of this process. Headers of clients that do not know it must match. */
const BRIDGE_SECRET = randomUUID()

/** The header of messages that this process passes on from standard input, where messages have no headers. */
export const BRIDGED: Readonly<Record<string, string>> = { [BRIDGE_HEADER]: BRIDGE_SECRET }

/** The headers that must match the message. */
export function headersToMatch(headers: RequestHeaders): RequestHeaders {
  return headers?.[BRIDGE_HEADER] === BRIDGE_SECRET ? undefined : headers
}
