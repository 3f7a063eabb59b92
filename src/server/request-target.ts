import type { IncomingMessage } from 'node:http'
import { BadRequestError } from '../errors/errors.ts'
import { isHost } from '../platform/host-header.ts'

/**
 * Checks the target and the `Host` header of a request. A target that is a whole URL, as for a proxy, becomes its path, and
 * its host becomes the `Host` header: so routes, guests and logs see one host. (RFC 9112, section 3.2)
 *
 * @returns why the request is refused.
 */
export function targetProblem(request: IncomingMessage): InstanceType<typeof BadRequestError> | undefined {
  const problem =
    hostProblem(request) ?? (request.url?.charCodeAt(0) === SLASH ? undefined : readTarget(request))
  return problem === undefined ? undefined : new BadRequestError(problem)
}

const SLASH = 47

/** Most requests have the same. */
let lastHost = ''

/** Exactly one is valid, but HTTP/1.0 knew none. An empty one is that of a target without a host. */
function hostProblem({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let host: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!isHostName(rawHeaders[i])) continue
    if (host !== undefined) return 'it has several Host headers'
    host = rawHeaders[i + 1] ?? ''
  }
  if (host === undefined) return httpVersion === '1.0' ? undefined : 'it has no Host header'
  if (host === lastHost) return undefined
  if (!isHost(host))
    return host === '' ? undefined : 'its Host header is not a host name with an optional port'
  lastHost = host
  return undefined
}

function isHostName(name: string | undefined): boolean {
  return name?.length === 4 && name.toLowerCase() === 'host'
}

/** The authority, and the rest. */
const WHOLE_URL = /^https?:\/\/([^/?#]*)(.*)/i

function readTarget(request: IncomingMessage): string | undefined {
  const { url = '', method, headers, rawHeaders } = request
  if (method === 'CONNECT' || (url === '*' && method === 'OPTIONS')) return undefined
  const [, host = '', rest = ''] = WHOLE_URL.exec(url) ?? []
  if (!isHost(host)) return 'its target is neither a path nor a URL with a valid host'
  headers.host = host
  const place = rawHeaders.findIndex((name, index) => index % 2 === 0 && isHostName(name))
  if (place < 0) rawHeaders.push('Host', host)
  else rawHeaders[place + 1] = host
  if (rest === '' && method === 'OPTIONS') request.url = '*'
  else request.url = rest.startsWith('/') ? rest : `/${rest}`
  return undefined
}
