import { ClientGoneError, QueueFullError, QueueSlowError } from '../../errors/errors.ts'
import type { PendingCall } from '../engine.ts'

/** Limits of the queue. */
export interface QueueLimits {
  readonly maxQueue: number
  readonly maxQueueBytes: number
  readonly maxWaitMs: number
}

/** The queued calls in order. */
export class WaitingCalls {
  readonly #limits: QueueLimits
  #calls: PendingCall[] = []
  #bytes = 0

  constructor(limits: QueueLimits) {
    this.#limits = limits
  }

  get length(): number {
    return this.#calls.length
  }

  get first(): PendingCall | undefined {
    return this.#calls[0]
  }

  /**
   * @param expectedMs - The expected waiting time.
   * @throws {@link QueueFullError} or {@link QueueSlowError} if it must not wait.
   */
  push(call: PendingCall, expectedMs: number): void {
    const { maxQueue, maxQueueBytes, maxWaitMs } = this.#limits
    if (this.#isFull(call)) this.dropGone()
    if (this.#calls.length >= maxQueue) throw new QueueFullError(`${maxQueue} calls`)
    if (this.#isFull(call)) throw new QueueFullError(`${maxQueueBytes} bytes of input`)
    if (expectedMs > maxWaitMs) throw new QueueSlowError(maxWaitMs)
    this.#calls.push(call)
    this.#bytes += call.input.length
  }

  shift(): PendingCall | undefined {
    const call = this.#calls.shift()
    if (call) this.#bytes -= call.input.length
    return call
  }

  /** Requeues calls, regardless of the limits, because they were admitted before. */
  unshift(calls: readonly PendingCall[]): void {
    this.#calls.unshift(...calls)
    for (const { input } of calls) this.#bytes += input.length
  }

  /** Rejects calls that have waited too long. */
  dropLate(now: number): void {
    const { maxWaitMs } = this.#limits
    while (this.first && now - this.first.madeAt > maxWaitMs)
      this.shift()?.reject(new QueueSlowError(maxWaitMs))
  }

  /** Rejects the calls whose clients have disconnected. */
  dropGone(): void {
    if (!this.#calls.some(isGone)) return
    for (const call of this.#calls.filter(isGone)) call.reject(new ClientGoneError())
    this.#calls = this.#calls.filter((call) => !isGone(call))
    this.#bytes = this.#calls.reduce((sum, { input }) => sum + input.length, 0)
  }

  rejectAll(error: Error): void {
    for (const call of this.#calls.splice(0)) call.reject(error)
    this.#bytes = 0
  }

  #isFull({ input }: PendingCall): boolean {
    const { maxQueue, maxQueueBytes } = this.#limits
    return this.#calls.length >= maxQueue || (this.#bytes > 0 && this.#bytes + input.length > maxQueueBytes)
  }
}

/** Whether the client of a call has disconnected. */
export function isGone({ caller }: PendingCall): boolean {
  return caller.isGone === true
}
