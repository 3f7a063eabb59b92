import { maxHeaderSize } from 'node:http'
import {
  Http2ServerRequest,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
import type { ReadableOptions } from 'node:stream'
import { processReads } from '../engine/turn-scheduler.ts'
import { pushJoined } from '../platform/http2-streams.ts'
import { pauseHttp2Reading, resumeHttp2Reading } from '../platform/node-workarounds.ts'
import { TURN_PIECES } from '../route/body.ts'

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
    if (!stream.endAfterHeaders) stream.push = pushInTurns
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

/** Frames of bodies of all connections. */
let frames = 0

/**
 * The method `push` of a stream that leaves other clients their turn. Node reads 2 MiB of a connection before the event loop
 * turns, which may be 200,000 frames. The connection of each 1,024th frame rests: most likely it is the one that sends them.
 */
function pushInTurns(this: ServerHttp2Stream, piece: unknown, encoding?: BufferEncoding): boolean {
  if (++frames % TURN_PIECES === 0) restConnection(this.session)
  return pushJoined.call(this, piece, encoding)
}

/** Reads no more from a connection until it has its turn. */
function restConnection(session: Http2Session | undefined): void {
  const socket = session?.socket
  if (!socket) return
  pauseHttp2Reading(socket)
  processReads.wait(() => {
    if (session.socket === socket) resumeHttp2Reading(socket)
  })
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
