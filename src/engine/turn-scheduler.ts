// The imported timer, not the global: tests replace the global with a simulated clock.
import { setImmediate } from 'node:timers'

/** A guest is slow if its last call took longer, in ms. Its next call waits for a turn, which costs some microseconds. */
export const SLOW_MS = 0.1

/** Default time for calls of slow guests in a turn of the event loop, in ms. */
const TURN_MS = 1

/**
 * Lets the slow guests of an event loop take turns, so that others are answered between their calls: without this, a turn would
 * run all calls of a slow guest that have arrived, one after the other.
 */
export class TurnScheduler {
  /** Waiting calls in the order in which they run. */
  readonly #waiting: (() => void)[] = []
  readonly #turnMs: number
  #isPlanned = false

  /** @param turnMs - Time for calls in a turn of the event loop, in ms. At least one runs. */
  constructor(turnMs = TURN_MS) {
    this.#turnMs = turnMs
  }

  /** @param runOne - Runs one call. It must not throw, and asks again if there is another. */
  wait(runOne: () => void): void {
    this.#waiting.push(runOne)
    this.#plan()
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => this.#turn())
  }

  #turn(): void {
    this.#isPlanned = false
    const until = performance.now() + this.#turnMs
    for (let left = this.#waiting.length; left > 0; left--) {
      this.#waiting.shift()?.()
      if (performance.now() >= until) break
    }
    if (this.#waiting.length > 0) this.#plan()
  }
}

/** The scheduler of the process: its servers share one event loop. */
export const slowGuests = new TurnScheduler()

/** Clients that send many small pieces are read one after the other, one in a turn of the event loop. */
export const processReads = new TurnScheduler(0)
