import type { ServingProcess } from './serving-process.ts'

/** The time during which all processes hold their answers back, so that the listener can close. */
export class DrainBarrier {
  /** Resolves when all processes are in it or have ended, or it is late. */
  readonly begun: Promise<void>
  /** Leaves it. */
  end: () => void = () => undefined
  readonly #waiting: Set<ServingProcess>
  readonly #ended: Promise<void>
  #begin: () => void = () => undefined

  constructor(processes: readonly ServingProcess[], lateMs: number) {
    this.#waiting = new Set(processes)
    this.#ended = new Promise((resolve) => {
      this.end = resolve
    })
    this.begun = new Promise((resolve) => {
      const timer = setTimeout(resolve, lateMs)
      this.#begin = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    if (processes.length === 0) this.#begin()
  }

  /** @returns when the phase has ended. */
  add(process: ServingProcess): Promise<void> {
    this.#waiting.delete(process)
    if (this.#waiting.size === 0) this.#begin()
    return this.#ended
  }
}
