import { constants, type Http2ServerRequest, type ServerHttp2Stream } from 'node:http2'
import { discardRest } from '../platform/unread-body.ts'

/** Bytes of a body that a client may still send when it has the answer. */
const MAX_REST = 2 ** 24

/** Streams whose client shall not send the rest of its body. */
const unwanted = new WeakSet<ServerHttp2Stream>()

export function isUnwanted(stream: ServerHttp2Stream): boolean {
  return unwanted.has(stream)
}

/** Ends a request over HTTP/2 whose answer ends before its body. */
export function endEarly(request: Http2ServerRequest): void {
  const { stream } = request
  if (request.method === 'HEAD')
    unwanted.add(stream) // there Node emits `finish` before the answer
  else if (stream.writableFinished) void stopAfterRest(request)
  else stream.once('finish', () => stopAfterRest(request))
}

async function stopAfterRest(request: Http2ServerRequest): Promise<void> {
  if (!request.complete) await discardRest(request, { bytes: MAX_REST })
  if (request.complete) return
  request.pause()
  unwanted.add(request.stream)
  setImmediate(stopClient, request.stream)
}

/**
 * Asks the client of a complete answer not to send the rest of its body. Before the frame with END_STREAM has left, the
 * reset would break off the answer. (RFC 9113, section 8.1) That frame can wait for the client's window, after `finish`.
 */
export function stopClient(stream: ServerHttp2Stream): void {
  if (stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR)
}
