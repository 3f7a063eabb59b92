import type { Readable } from 'node:stream'

/** How long a client may continue with a body whose answer it has, and how long it may pause, in milliseconds. */
const REST = { ms: 30_000, pauseMs: 1_000 }

/**
 * Reads and discards the rest of a body whose answer came first, such as 404: many clients read no answer before they
 * have sent all of the body.
 *
 * @param maxBytes - Maximum size of the rest.
 * @param onEnd - Called once, when the body has ended, the client pauses for a second, sends for 30 s, or sends more than
 * `maxBytes`.
 */
export function discardRest(request: Readable, maxBytes: number, onEnd: () => void): void {
  let bytes = 0
  let isOver = false
  const end = () => {
    if (isOver) return
    isOver = true
    clearTimeout(pause)
    clearTimeout(limit)
    onEnd()
  }
  const pause = setTimeout(end, REST.pauseMs).unref()
  const limit = setTimeout(end, REST.ms).unref()
  const onData = ({ length }: Uint8Array) => {
    bytes += length
    if (bytes > maxBytes) end()
    else if (!isOver) pause.refresh()
  }
  request.on('data', onData).once('end', end).once('close', end).resume()
}
