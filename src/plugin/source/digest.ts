import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Hashed at a time: 2 ms on a machine that is slow at it. */
const SLICE_BYTES = 524_288

/** SHA-256 in lower-case hex. */
export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The same of bytes that may be many: the event loop turns meanwhile. */
export async function sha256InSlices(bytes: Uint8Array): Promise<string> {
  const hash = createHash('sha256')
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    if (at > 0) await nextTurn()
    hash.update(bytes.subarray(at, at + SLICE_BYTES))
  }
  return hash.digest('hex')
}
