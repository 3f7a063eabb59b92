import type { Http2ServerResponse, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { Duplex } from 'node:stream'

/**
 * Sends a whole answer in two frames. Node's response waits for trailers, and so sends the end of each answer in a frame of its own,
 * one turn later. A request that ends with its head needs that: its stream would be closed when nghttp2 reads what a client sends
 * on it by mistake, and so ignores it.
 *
 * @param headers - With `:status`.
 * @param body - Small: the stream emits `finish` only if the socket takes it at once.
 */
export function sendWhole(
  response: Http2ServerResponse,
  headers: OutgoingHttpHeaders,
  body: string,
  encoding: BufferEncoding,
): void {
  const { stream } = response
  if (stream.destroyed || stream.closed) return
  stream.respond(headers)
  stream.destroy = destroyLater
  stream.end(body, encoding)
  response.end()
}

/**
 * Node destroys a stream when its last frame is written, before it learns that the write has succeeded. It then makes an error
 * for the write, with a stack trace, which costs more than the rest of the answer.
 */
function destroyLater(this: ServerHttp2Stream, error?: Error): ServerHttp2Stream {
  const isComplete = !error && this.rstCode === 0 && this.session?.destroyed === false
  if (!isComplete) return Duplex.prototype.destroy.call(this, error) as ServerHttp2Stream
  if (complete.push(this) === 1) setImmediate(destroyComplete)
  return this
}

let complete: ServerHttp2Stream[] = []

function destroyComplete(): void {
  const streams = complete
  complete = []
  for (const stream of streams) Duplex.prototype.destroy.call(stream)
}
