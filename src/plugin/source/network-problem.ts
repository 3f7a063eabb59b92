import { errorCode } from '../../platform/system-errors.ts'
import { printable } from '../../platform/text.ts'

/** The problem that `fetch` hides in the `cause` of its TypeError. */
interface NetworkProblem {
  readonly reason: string
  /**
   * - `network`: it may be over later.
   * - `untrusted`: the certificate or the TLS handshake is wrong. A cached copy must not hide it.
   * - `unencrypted`: the server answers a TLS handshake without TLS.
   * - `answer`: the server does not answer in HTTP/1.1, or the URL is one that is never requested.
   */
  readonly kind: 'network' | 'untrusted' | 'unencrypted' | 'answer'
  readonly cause: Error
}

/**
 * Explains why `fetch`, or the body of its response, failed for a URL.
 *
 * @returns undefined if another error was thrown: a TypeError without a cause is a bug, not a problem of the network.
 */
export function networkProblem(url: URL, error: unknown): NetworkProblem | undefined {
  const cause = error instanceof TypeError ? error.cause : undefined
  if (!(cause instanceof Error)) return undefined
  const code = errorCode(cause)
  if (code === undefined || code.startsWith('HPE_') || code === 'UND_ERR_HEADERS_OVERFLOW')
    return { reason: shortMessage(cause), kind: 'answer', cause }
  if (/CERT|TLS|SSL|SIGNATURE|EPROTO/.test(code)) return { ...problemOfTls(code, cause.message), cause }
  return { reason: reasonOf(code, url) ?? shortMessage(cause), kind: 'network', cause }
}

function problemOfTls(code: string, message: string): Omit<NetworkProblem, 'cause'> {
  // Of a failed handshake, only the message may have the reason: `... error:0A00010B:SSL routines:FUNCTION:REASON:...`.
  const parts = message.split(':')
  const reason = (code === 'EPROTO' && parts[parts.indexOf('SSL routines') + 2]) || code
  const name = reason.toUpperCase().replaceAll(' ', '_')
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/.test(name))
    return { reason: 'it does not speak TLS, perhaps http', kind: 'unencrypted' }
  if (name.includes('NO_APPLICATION_PROTOCOL'))
    return { reason: 'it does not speak HTTP/1.1, perhaps HTTP/2 only', kind: 'answer' }
  return { reason: `no trusted TLS connection (${printable(reason)})`, kind: 'untrusted' }
}

function reasonOf(code: string, { hostname, host }: URL): string | undefined {
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${hostname} does not resolve (${code}): check the spelling and the network`
    case 'ECONNREFUSED':
      return `nothing listens on ${host}`
    case 'UND_ERR_CONNECT_TIMEOUT':
      return `${host} does not respond`
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return `${host} closed the connection before the end`
    default:
      return undefined
  }
}

function shortMessage({ message }: Error): string {
  return printable(message).slice(0, 300)
}
