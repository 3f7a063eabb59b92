/** Replacements of processes that serve: only one at a time, so that the others serve. */
export class Swaps {
  #running: Promise<void> | undefined
  #isRequested = false

  get isRunning(): boolean {
    return this.#running !== undefined
  }

  async run(replace: () => Promise<void>): Promise<void> {
    let end: () => void = () => undefined
    this.#running = new Promise((resolve) => {
      end = resolve
    })
    try {
      await replace()
    } finally {
      this.#running = undefined
      end()
    }
  }

  /** Calls back when none runs: once for all requests that come before. @param replace - Calls {@link Swaps.run}. */
  async request(replace: () => Promise<void>): Promise<void> {
    if (this.#isRequested) return
    this.#isRequested = true
    while (this.#running) await this.#running
    this.#isRequested = false
    await replace()
  }
}
