import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Members } from './json-rpc.ts'

/** Headers of a request; a transport without headers has none. */
export type RequestHeaders = Pick<IncomingHttpHeaders, string> | undefined

const BRIDGE_HEADER = 'wasm-serve-bridge'

const SESSION_HEADER = 'wasm-serve-session'

/** A secret of this process. Headers of clients that do not know it must match. */
const BRIDGE_SECRET = randomUUID()

/** What the server knows of a client of a revision of 2025 over standard input and output: its messages do not repeat it. */
export interface ClientSession {
  /** What the client can be asked for. */
  readonly capabilities: Members
  /** The least severe level of log messages for it. undefined: it wants none. */
  readonly logLevel?: string
}

/**
 * The headers of messages that this process passes on from standard input, where messages have no headers.
 *
 * @param session - undefined: the message is complete by itself.
 */
export function bridgeHeaders(session: ClientSession | undefined): Readonly<Record<string, string>> {
  return {
    [BRIDGE_HEADER]: BRIDGE_SECRET,
    ...(session && { [SESSION_HEADER]: JSON.stringify(session) }),
  }
}

/** The headers that must match the message. */
export function headersToMatch(headers: RequestHeaders): RequestHeaders {
  return isBridged(headers) ? undefined : headers
}

/** The session of a message. undefined: it has none, so its client cannot be asked, and gets no messages but answers. */
export function sessionOf(headers: RequestHeaders): ClientSession | undefined {
  const given = headers?.[SESSION_HEADER]
  return typeof given === 'string' && isBridged(headers) ? JSON.parse(given) : undefined
}

function isBridged(headers: RequestHeaders): boolean {
  return headers?.[BRIDGE_HEADER] === BRIDGE_SECRET
}
