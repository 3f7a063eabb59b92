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

  /** Whether nobody waits for it any more, and it was ended. */
  get isGivenUp(): boolean {
    return this.#ended.signal.aborted
  }

  /** @throws what the work throws, and the reason of the signal. */
  async wait(signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted()
    let stop: () => void = () => undefined
    this.#waiting++
    try {
      if (!signal) return await this.#result
      const stopped = new Promise<never>((_resolve, reject) => {
        stop = () => reject(signal.reason)
        signal.addEventListener('abort', stop)
      })
      return await Promise.race([this.#result, stopped])
    } finally {
      signal?.removeEventListener('abort', stop)
      if (--this.#waiting === 0) this.#ended.abort()
    }
  }
}
