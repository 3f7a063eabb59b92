import { maxHeaderSize } from 'node:http'
import { Http2ServerRequest, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import type { ReadableOptions } from 'node:stream'
import { pushJoined } from '../platform/http2-streams.ts'

/**
 * An HTTP/2 request in the shape of an HTTP/1.1 request: a `Host` header, no pseudo-headers, and one `Cookie`. (RFC
 * 9113, sections 8.2.3 and 8.3.1) Only `httpVersion` differs. Node derives method and URL from headers of its own.
 */
export class Http2Request extends Http2ServerRequest {
  override readonly headers: IncomingHttpHeaders
  override readonly rawHeaders: string[]
  /** Memory that its headers take, about. One byte of a client can refer to a header of 4 KiB. (RFC 7541, section 6.1) */
  readonly headBytes: number

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    options: ReadableOptions,
    rawHeaders: readonly string[],
  ) {
    super(stream, headers, options, rawHeaders)
    if (!stream.endAfterHeaders) stream.push = pushJoined
    this.headers = headersOf(headers)
    const bytes = textBytes(rawHeaders)
    this.headBytes = bytes + (rawHeaders.length / 2) * HEADER_BYTES
    // What is refused for its size is not joined: its parts are references to one text.
    this.rawHeaders = bytes > maxHeaderSize ? [...rawHeaders] : rawHeadersOf(headers, rawHeaders)
  }

  override push(piece: unknown, encoding?: BufferEncoding): boolean {
    return pushJoined.call(this, piece, encoding)
  }
}

/** Memory of a header besides its texts. */
const HEADER_BYTES = 256

function textBytes(texts: readonly string[]): number {
  let bytes = 0
  for (const text of texts) bytes += text.length
  return bytes
}

function headersOf(received: IncomingHttpHeaders): IncomingHttpHeaders {
  const headers: IncomingHttpHeaders = {}
  for (const name of Object.keys(received)) if (!name.startsWith(':')) headers[name] = received[name]
  const authority = received[':authority']
  if (authority !== undefined) headers.host ??= authority
  return headers
}

function rawHeadersOf(headers: IncomingHttpHeaders, received: readonly string[]): string[] {
  const raw: string[] = []
  const cookies: string[] = []
  const authority = headers[':authority']
  // Merge equal ones. If they differ, there are several, which is rejected.
  if (authority !== undefined && authority.toLowerCase() !== headers.host?.toLowerCase())
    raw.push('host', authority)
  for (let i = 0; i + 1 < received.length; i += 2) {
    const name = String(received[i])
    const value = String(received[i + 1])
    if (name === 'cookie') cookies.push(value)
    else if (!name.startsWith(':')) raw.push(name, value)
  }
  if (cookies.length > 0) raw.push('cookie', cookies.join('; '))
  return raw
}
