import type { IncomingMessage } from 'node:http'
import { setImmediate } from 'node:timers'

/** Pieces of a response that are read in a turn of the event loop. */
const TURN_PIECES = 1_024

/** Lets others have their turn while a server sends many small pieces: Node reads 2 MiB in a turn, which may be 300,000. */
export class ResponseTurns {
  readonly #response: IncomingMessage
  readonly #resume: () => void
  #pieces = 0

  /** @param resume - Reads on, if the response may be read. */
  constructor(response: IncomingMessage, resume: () => void) {
    this.#response = response
    this.#resume = resume
  }

  /** Call it after each piece. */
  count(): void {
    if (++this.#pieces % TURN_PIECES !== 0) return
    this.#response.pause()
    setImmediate(this.#resume)
  }
}
