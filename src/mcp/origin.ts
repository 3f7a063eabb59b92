import type { IncomingHttpHeaders } from 'node:http'
import { McpOriginRefusedError } from '../errors/errors.ts'
import { isHostOf, isKnownHost } from '../platform/host-header.ts'

/**
 * Makes the check that a request was not made by a foreign web page in a browser. Such a page may point its own host name at this
 * server's address (DNS rebinding): so the name in `Host` must be an IP address, `localhost` or a known name. It may also send
 * requests to the address itself: so `Origin` must be that of the server, of this machine, or a known one. The check returns
 * the reason to refuse a request.
 *
 * @param hosts - Known host names.
 * @param origins - Known origins.
 */
export function originCheck(
  hosts: readonly string[],
  origins: readonly string[],
): (headers: IncomingHttpHeaders) => Error | undefined {
  const knownHosts = new Set(['localhost', ...hosts.map((name) => name.toLowerCase())])
  const knownOrigins = new Set(origins.map((origin) => origin.toLowerCase()))
  let lastHost: unknown // most requests have the same
  return (headers) => {
    const { origin } = headers
    const given = headers.host ?? headers[':authority'] ?? ''
    if (given === lastHost && origin === undefined) return undefined
    const host = String(given).toLowerCase()
    if (!isKnownHost(host, knownHosts))
      return new McpOriginRefusedError('the name in its Host header is not one of mcp.hosts')
    lastHost = given
    if (origin === undefined || knownOrigins.has(origin.toLowerCase())) return undefined
    const url = URL.canParse(origin) ? new URL(origin) : undefined
    if (url && (isHostOf(url, host) || isLoopback(url.hostname))) return undefined
    return new McpOriginRefusedError('it comes from a web page whose origin is not one of mcp.origins')
  }
}

function isLoopback(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(name)
}
