import type { Readable } from 'node:stream'

/** How long a client may continue with a body whose answer it has, in milliseconds. */
const REST_MS = 30_000

/** How long it may pause. */
const PAUSE_MS = 1_000

const discards = new WeakMap<Readable, Promise<void>>()

/**
 * Reads and discards the rest of a body whose answer came first, such as 404: many clients read no answer before they
 * have sent all of the body.
 *
 * @param limits - `bytes`: maximum size of the rest; default: none. `isSlow`: the client has had its time.
 * @returns when the body has ended, or the client has paused for a second, sent for 30 s (a slow one: for a second), or
 * sent more than `bytes`.
 */
export function discardRest(request: Readable, limits: RestLimits = {}): Promise<void> {
  const discard = discards.get(request) ?? readRest(request, limits)
  discards.set(request, discard)
  return discard
}

interface RestLimits {
  readonly bytes?: number
  readonly isSlow?: boolean
}

function readRest(
  request: Readable,
  { bytes: maxBytes = Number.POSITIVE_INFINITY, isSlow = false }: RestLimits,
): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0
    const end = () => {
      clearTimeout(pause)
      clearTimeout(limit)
      request.off('data', onData)
      resolve()
    }
    const pause = setTimeout(end, PAUSE_MS).unref()
    const limit = setTimeout(end, isSlow ? PAUSE_MS : REST_MS).unref()
    const onData = ({ length }: Uint8Array) => {
      bytes += length
      if (bytes > maxBytes) end()
      else pause.refresh()
    }
    request.on('data', onData).once('end', end).once('close', end).resume()
  })
}
