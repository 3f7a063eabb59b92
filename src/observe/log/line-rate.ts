/** Holds the lines of an engine's guests below so many a second, however many calls and instances write them. */
export class LineRate {
  readonly perSecond: number
  #since = Number.NEGATIVE_INFINITY
  #left = 0
  #isTold = false

  constructor(perSecond: number) {
    this.perSecond = perSecond
  }

  /** @param now - In milliseconds. @returns whether one more may be written. */
  take(now = performance.now()): boolean {
    if (now - this.#since >= 1_000) {
      this.#since = now
      this.#left = this.perSecond
      this.#isTold = false
    }
    if (this.#left === 0) return false
    this.#left--
    return true
  }

  /** @returns whether it is yet to be said in this second that lines are dropped: from now on it has been. */
  tell(): boolean {
    const isNews = !this.#isTold
    this.#isTold = true
    return isNews
  }
}
