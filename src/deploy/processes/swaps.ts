import { Mutex } from '../../platform/mutex.ts'

/** Replacements of processes that serve: only one at a time, so that the others serve. */
export class Swaps {
  readonly #mutex = new Mutex()
  #isRequested = false

  get isRunning(): boolean {
    return this.#mutex.isBusy
  }

  run(replace: () => Promise<void>): Promise<void> {
    return this.#mutex.run(replace)
  }

  /** Calls back when none runs: once for all requests that come before. @param replace - Calls {@link Swaps.run}. */
  async request(replace: () => Promise<void>): Promise<void> {
    if (this.#isRequested) return
    this.#isRequested = true
    while (this.isRunning) await this.#mutex.idle
    this.#isRequested = false
    await replace()
  }
}
