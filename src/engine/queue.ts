import { ClientGoneError, QueueFullError, QueueSlowError } from '../errors/errors.ts'
import type { PendingCall } from './engine.ts'

/** Limits of the calls that wait. */
export interface QueueLimits {
  readonly maxQueue: number
  /** Maximum bytes of their inputs. A single call is never too large. Default: no limit. */
  readonly maxQueueBytes?: number | undefined
  /** Default: no limit. */
  readonly maxWaitMs?: number | undefined
}

interface Admission {
  readonly expectedMs?: number
  readonly isCounted?: boolean
}

/** The queued calls in order. */
export class WaitingCalls {
  readonly #maxQueue: number
  readonly #maxQueueBytes: number
  readonly #maxWaitMs: number
  #calls: PendingCall[] = []
  #bytes = 0

  constructor({ maxQueue, maxQueueBytes, maxWaitMs }: QueueLimits) {
    this.#maxQueue = maxQueue
    this.#maxQueueBytes = maxQueueBytes ?? Number.POSITIVE_INFINITY
    this.#maxWaitMs = maxWaitMs ?? Number.POSITIVE_INFINITY
  }

  get length(): number {
    return this.#calls.length
  }

  get first(): PendingCall | undefined {
    return this.#calls[0]
  }

  /**
   * @param expectedMs - The expected waiting time. Default: 0.
   * @param isCounted - Whether `maxQueue` applies. Default: true.
   * @throws {@link QueueFullError} or {@link QueueSlowError} if it must not wait.
   */
  push(call: PendingCall, { expectedMs = 0, isCounted = true }: Admission = {}): void {
    const maxQueue = isCounted ? this.#maxQueue : Number.POSITIVE_INFINITY
    if (this.#isFull(call, maxQueue)) this.dropGone()
    if (this.#calls.length >= maxQueue) throw new QueueFullError(`${maxQueue} calls`)
    if (this.#isFull(call, maxQueue)) throw new QueueFullError(`${this.#maxQueueBytes} bytes of input`)
    if (expectedMs > this.#maxWaitMs) throw new QueueSlowError(this.#maxWaitMs)
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

  /** Rejects the newest calls until `maxQueue` are left. More can wait if they were pushed without being counted. */
  dropExcess(): void {
    if (this.#calls.length <= this.#maxQueue) return
    for (const call of this.#calls.splice(this.#maxQueue)) {
      this.#bytes -= call.input.length
      call.reject(new QueueFullError(`${this.#maxQueue} calls`))
    }
  }

  /** Rejects calls that have waited too long. */
  dropLate(now: number, newError = (): Error => new QueueSlowError(this.#maxWaitMs)): void {
    while (this.first && now - this.first.madeAt > this.#maxWaitMs) this.shift()?.reject(newError())
  }

  /** Rejects the calls whose clients have disconnected. */
  dropGone(): void {
    if (!this.#calls.some(({ caller }) => caller.isGone)) return
    for (const call of this.#calls) if (call.caller.isGone) call.reject(new ClientGoneError())
    this.#calls = this.#calls.filter(({ caller }) => !caller.isGone)
    this.#bytes = this.#calls.reduce((sum, { input }) => sum + input.length, 0)
  }

  rejectAll(error: unknown): void {
    for (const call of this.#calls.splice(0)) call.reject(error)
    this.#bytes = 0
  }

  #isFull({ input }: PendingCall, maxQueue: number): boolean {
    const isLarge = this.#bytes > 0 && this.#bytes + input.length > this.#maxQueueBytes
    return isLarge || this.#calls.length >= maxQueue
  }
}
