import type { IncomingMessage } from 'node:http'
import { setImmediate } from 'node:timers'

/** Pieces of a response that are read in a turn of the event loop. */
const TURN_PIECES = 1_024

/**
 * Lets others have their turn while a server sends many small pieces: Node reads 2 MiB in a turn, which may be 300,000.
 *
 * @param resume - Reads on, if the response may be read.
 * @returns a function to call after each piece.
 */
export function readInTurns(response: IncomingMessage, resume: () => void): () => void {
  let pieces = 0
  return () => {
    if (++pieces % TURN_PIECES !== 0) return
    response.pause()
    setImmediate(resume)
  }
}
