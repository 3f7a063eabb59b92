// The imported timer, not the global: tests replace the global with a simulated clock.
import { setImmediate } from 'node:timers'

/** A guest is slow if its last call took longer, in ms. Its next call waits for a turn, which costs some microseconds. */
export const SLOW_MS = 0.1

/** Time for calls of slow guests in a turn of the event loop, in ms. At least one call runs. */
const TURN_MS = 1

/**
 * Lets the slow guests of an event loop take turns, so that others are answered between their calls: without this, a turn would
 * run all calls of a slow guest that have arrived, one after the other.
 */
export class FairTurns {
  /** In the order in which they run. */
  readonly #waiting: (() => void)[] = []
  #isPlanned = false

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
    const until = performance.now() + TURN_MS
    for (let left = this.#waiting.length; left > 0; left--) {
      this.#waiting.shift()?.()
      if (performance.now() >= until) break
    }
    if (this.#waiting.length > 0) this.#plan()
  }
}

/** Those of the process, because all of its servers share one event loop. */
export const processFairTurns = new FairTurns()
