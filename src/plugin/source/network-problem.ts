import { errorCode } from '../../platform/system-errors.ts'

/** The problem that `fetch` hides in the `cause` of its TypeError. */
export interface NetworkProblem {
  readonly reason: string
  /** The certificate or the TLS handshake is wrong: repeating does not help, and a cached copy must not hide it. */
  readonly isUntrusted: boolean
  readonly cause: Error
}

/** Explains why `fetch`, or the body of its response, failed for a URL. */
export function networkProblem({ hostname, host }: URL, error: TypeError): NetworkProblem {
  const cause = error.cause instanceof Error ? error.cause : error
  const code = errorCode(cause) ?? ''
  const isUntrusted = /CERT|TLS|SSL|SIGNATURE|EPROTO/.test(code)
  return { reason: isUntrusted ? `no trusted TLS connection (${code})` : reasonOf(), isUntrusted, cause }

  function reasonOf(): string {
    switch (code) {
      case 'ENOTFOUND':
      case 'EAI_AGAIN':
        return `the name ${hostname} does not resolve (${code}): check the spelling and the network`
      case 'ECONNREFUSED':
        return `nothing listens on ${host}`
      case 'UND_ERR_CONNECT_TIMEOUT':
        return `${host} does not answer`
      case 'ECONNRESET':
      case 'UND_ERR_SOCKET':
        return `${host} closed the connection before the end`
      default:
        return cause.message
    }
  }
}
