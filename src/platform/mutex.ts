import { unlessAborted } from './event-loop.ts'

/** Runs one piece of work at a time, in the order in which they ask. */
export class Mutex {
  #count = 0
  #idle: Promise<void> = Promise.resolve()

  /** Whether work runs or waits. */
  get isBusy(): boolean {
    return this.#count > 0
  }

  /** Settles when all work that has asked so far has ended, and never rejects. */
  get idle(): Promise<void> {
    return this.#idle
  }

  /**
   * Waits until all earlier work has ended.
   *
   * @returns a function that lets the next one in. Call it once.
   * @throws the reason of the signal, if it is aborted first.
   */
  async enter(signal?: AbortSignal): Promise<() => void> {
    const before = this.#idle
    let leave: () => void = () => undefined
    const left = new Promise<void>((resolve) => {
      leave = () => {
        this.#count--
        resolve()
      }
    })
    this.#count++
    this.#idle = before.then(() => left)
    try {
      await unlessAborted(before, signal)
      return leave
    } catch (error) {
      leave()
      throw error
    }
  }

  /** Runs work when all earlier work has ended. A failure does not concern the next one. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    const leave = await this.enter()
    try {
      return await work()
    } finally {
      leave()
    }
  }
}
