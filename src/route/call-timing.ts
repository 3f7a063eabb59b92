/**
 * The clock of one call: an engine runs it, for a caller that wants to know how long the call waited and how long the
 * guest ran. Milliseconds.
 */
export class CallTiming {
  #askedAt: number | undefined
  #begunAt: number | undefined
  #endedAt: number | undefined

  /** Until the guest began; of a call in a thread with the way there and back. Undefined if it is not known. */
  get queueMs(): number | undefined {
    return this.#askedAt === undefined ? undefined : (this.#begunAt ?? performance.now()) - this.#askedAt
  }

  /** Undefined if the guest never began, or nobody knows. */
  get guestMs(): number | undefined {
    const [begun, ended] = [this.#begunAt, this.#endedAt]
    return begun === undefined || ended === undefined ? undefined : ended - begun
  }

  asked(): void {
    this.#askedAt = performance.now()
  }

  begun(): void {
    this.#begunAt = performance.now()
  }

  /** @param guestMs - How long the guest ran, where nobody has seen it begin. */
  ended(guestMs?: number): void {
    this.#endedAt = performance.now()
    if (guestMs !== undefined) this.#begunAt = Math.max(this.#endedAt - guestMs, this.#askedAt ?? 0)
  }

  /** The call ended with an error of this code. Nothing is done with it, unless calls are counted. */
  failed(_code: string): void {
    // see MeteredCall
  }

  /** Nobody knows how long it waited and how long it ran. */
  lost(): void {
    this.#askedAt = undefined
  }
}
