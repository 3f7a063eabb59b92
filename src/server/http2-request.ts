import type { Http2ServerRequest } from 'node:http2'

/**
 * Makes a request of HTTP/2 look as it would over HTTP/1.1, so that nothing else has to know: a `Host` header, no
 * pseudo-headers, and one `Cookie`. (RFC 9113, sections 8.2.3 and 8.3.1) Only `httpVersion` tells.
 */
export function asHttp1(request: Http2ServerRequest): Http2ServerRequest {
  const raw: string[] = []
  const cookies: string[] = []
  const given = request.rawHeaders
  const authority = request.headers[':authority']
  // One of them, unless they differ: then there are several, which is refused.
  if (authority !== undefined && authority !== request.headers.host) raw.push('host', authority)
  for (let i = 0; i + 1 < given.length; i += 2) {
    const name = String(given[i])
    const value = String(given[i + 1])
    if (name === 'cookie') cookies.push(value)
    else if (!name.startsWith(':')) raw.push(name, value)
  }
  if (cookies.length > 0) raw.push('cookie', cookies.join('; '))

  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !name.startsWith(':')),
  )
  if (authority !== undefined) headers.host ??= authority
  // Node derives method and URL from the headers that it has: these are put before them.
  return Object.defineProperties(request, { rawHeaders: { value: raw }, headers: { value: headers } })
}
