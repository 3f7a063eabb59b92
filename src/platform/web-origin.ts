import type { IncomingHttpHeaders } from 'node:http'
import { isHostOf, isKnownHost } from './host-header.ts'

/** Which names and web pages a listener or an endpoint knows. */
interface WebOriginRules {
  /** Names that `Host` may have, besides `localhost` and IP addresses. Default: any name. */
  readonly hosts?: readonly string[] | undefined
  /** Origins of other pages that may send requests; `*`: any. */
  readonly origins?: readonly string[]
  /** Whether pages of any server on this machine may send requests. */
  readonly allowsLocalPages?: boolean
}

/**
 * The sign by which a request is foreign: an unknown name in `Host`, an unknown `Origin`, or, without an `Origin`, a
 * `Sec-Fetch-Site` of another site.
 */
export type ForeignSign = 'host' | 'origin' | 'site'

/** Returns undefined for requests of programs, of known pages, and of the server's own pages. */
export type WebOriginCheck = (request: {
  readonly method?: string | undefined
  readonly headers: IncomingHttpHeaders
}) => ForeignSign | undefined

/**
 * Makes the check for requests that a foreign web page makes a browser send. Such a page may point its own host name at
 * this server's address (DNS rebinding), so the name in `Host` must be known. It may also send requests to the address
 * itself (CSRF), so the page must be known, or have the same host and port as the request. The scheme of the page may
 * differ, because a proxy may end TLS.
 */
export function webOriginCheck({
  hosts,
  origins = [],
  allowsLocalPages = false,
}: WebOriginRules): WebOriginCheck {
  const knownHosts = hosts && new Set(['localhost', ...hosts.map((name) => name.toLowerCase())])
  const knownOrigins = new Set(origins.map((origin) => origin.toLowerCase()))
  const isAllowed = (origin: string, host: string) => {
    if (knownOrigins.has('*') || knownOrigins.has(origin.toLowerCase())) return true
    const url = URL.canParse(origin) ? new URL(origin) : undefined
    return url !== undefined && (isHostOf(url, host) || (allowsLocalPages && isLocal(url.hostname)))
  }
  let lastHost: unknown // most requests have the same
  return (request) => {
    const { headers } = request
    const { origin, 'sec-fetch-site': site } = headers
    const host = headers.host ?? headers[':authority'] ?? ''
    if (knownHosts && host !== lastHost) {
      if (!isKnownHost(String(host), knownHosts)) return 'host'
      lastHost = host
    }
    if (origin !== undefined) return isAllowed(origin, String(host)) ? undefined : 'origin'
    const isSame = site === undefined || site === 'same-origin' || site === 'none'
    return isSame || isLink(request) ? undefined : 'site'
  }
}

/** Whether the user follows a link: only the user sees the answer, and GET requests change nothing. */
function isLink({ method, headers }: Parameters<WebOriginCheck>[0]): boolean {
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = headers
  return method === 'GET' && mode === 'navigate' && dest === 'document'
}

/** Whether a browser asks, before a request of a page, if the page may send it. */
export function isPreflight({ method, headers }: Parameters<WebOriginCheck>[0]): boolean {
  const { origin, 'access-control-request-method': wanted } = headers
  return method === 'OPTIONS' && origin !== undefined && wanted !== undefined
}

function isLocal(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(name)
}
