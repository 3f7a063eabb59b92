/** Counts events against a rate: a number at once, and a number per second. */
export class EventRate {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #since = performance.now()

  constructor(burst: number, perSecond: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
  }

  /** @returns whether the event is within the rate. */
  count(): boolean {
    const now = performance.now()
    this.#left = Math.min(this.#burst, this.#left + ((now - this.#since) / 1_000) * this.#perSecond) - 1
    this.#since = now
    return this.#left >= 0
  }
}
