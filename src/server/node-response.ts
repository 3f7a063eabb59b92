import { type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Http2ServerResponse } from 'node:http2'
import { BODILESS, DESCRIBING } from '../contract/http-answer.ts'
import { endEarly } from './early-answer.ts'

/*
 * The last stage of every answer, whoever makes it: a guest, a hook, a package. Each head is written here. That of an answer
 * without a body does not describe one.
 */

/** Headers as an object, or as a list of alternating names and values. */
type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[]

/** Node's response over HTTP/1. */
export class Http1Response extends ServerResponse {
  override writeHead(status: number, reason?: string | Headers, headers?: Headers): this {
    if (BODILESS.has(status)) {
      if (status === 205) Object.assign(this, { _hasBody: false }) // Node sets it for 204 and 304
      setBodilessHead(this, status, typeof reason === 'object' ? reason : headers)
      return super.writeHead(status)
    }
    return typeof reason === 'string'
      ? super.writeHead(status, reason, headers)
      : super.writeHead(status, reason ?? headers)
  }
}

/** Node's response over HTTP/2, which has no reasons. */
export class Http2Response extends Http2ServerResponse {
  override writeHead(
    status: number,
    reason?: string | OutgoingHttpHeaders,
    headers?: OutgoingHttpHeaders,
  ): this {
    const added = typeof reason === 'object' ? reason : headers
    if (!BODILESS.has(status)) return super.writeHead(status, added)
    setBodilessHead(this, status, added)
    return super.writeHead(status)
  }

  override end(callback?: () => void): this
  override end(data: string | Uint8Array, callback?: () => void): this
  override end(data: string | Uint8Array, encoding: BufferEncoding, callback?: () => void): this
  override end(...args: unknown[]): this {
    super.end(...(args as Parameters<Http2ServerResponse['end']>))
    if (!this.req.complete && !this.stream.endAfterHeaders) endEarly(this.req)
    return this
  }
}

/** Whether nothing of a response is left to send. */
export function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed
}

/** Only 205 has a length, of 0. (RFC 9110, sections 8.6 and 15.3.6) */
function setBodilessHead(
  response: ServerResponse | Http2ServerResponse,
  status: number,
  added: Headers = {},
): void {
  const lines = Array.isArray(added) ? pairsOf(added) : Object.entries(added)
  for (const [name, value] of lines) if (value !== undefined) response.setHeader(name, value)
  for (const name of response.getHeaderNames())
    if (DESCRIBING.has(name) || name === 'content-length') response.removeHeader(name)
  if (status === 205) response.setHeader('content-length', 0)
}

function pairsOf(list: readonly OutgoingHttpHeader[]): [string, OutgoingHttpHeader | undefined][] {
  return list.flatMap((name, at) => (at % 2 === 0 ? [[String(name), list[at + 1]]] : []))
}
