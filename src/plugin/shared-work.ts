import { unlessAborted } from '../platform/unless-aborted.ts'

/** Work that several wait for. It is ended when nobody waits for it any more. */
export class SharedWork<Result> {
  readonly #ended = new AbortController()
  readonly #result: Promise<Result>
  #waiting = 0

  /** @param begin - Is told by its signal that nobody wants the result. */
  constructor(begin: (signal: AbortSignal) => Promise<Result>) {
    this.#result = begin(this.#ended.signal)
    this.#result.catch(() => undefined) // those who wait are told
  }

  /** Whether nobody waits for it any more: it was ended. */
  get isGivenUp(): boolean {
    return this.#ended.signal.aborted
  }

  /** @throws what the work throws, and the reason of the signal. */
  async wait(signal?: AbortSignal): Promise<Result> {
    this.#waiting++
    try {
      return await unlessAborted(this.#result, signal)
    } finally {
      if (--this.#waiting === 0) this.#ended.abort()
    }
  }
}
