import pino, { type DestinationStream } from 'pino'

/** What waits to be written where who reads has stopped; then lines are dropped, or the process would grow for ever. */
const MOST_BYTES = 16_777_216

/**
 * Opens a descriptor for lines. Nobody waits for them, and no failure of them ends the server: a full disk, or a reader
 * that went away or does not read.
 */
export function openLines(descriptor: 1 | 2): DestinationStream {
  const lines = pino.destination({ dest: descriptor, sync: false, maxLength: MOST_BYTES })
  lines.on('error', () => undefined)
  return lines
}
