import { ClientGoneError, EngineClosedError } from '../errors/errors.ts'
import { errorFields } from '../errors/failure.ts'
import type { EngineStats } from '../observe/engine-stats.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'
import { isInterrupted } from '../runtime/interrupts.ts'
import { type Engine, PendingCall, settleWith } from './engine.ts'
import { Instances, type InstancesOptions, type OwnedInstance } from './instances.ts'
import { type QueueLimits, WaitingCalls } from './queue.ts'
import { SLICE_MS, SlicedCall } from './slices.ts'
import { SLOW_MS, type TurnScheduler } from './turn-scheduler.ts'

/** One instance on the event loop, one call at a time. */
export function openInline(options: InlineOptions): InlineEngine {
  return new SingleInstanceEngine(options)
}

export interface InlineOptions extends InstancesOptions, Omit<QueueLimits, 'maxWaitMs'> {
  /** Where calls wait while the guest is slow. Default: they wait for its previous calls only. */
  readonly turns?: TurnScheduler | undefined
}

export interface InlineEngine extends Engine {
  readonly name: 'inline'
  /** Incremented when stats change other than those of queued and running calls. */
  readonly changes: number
  /** Whether an instance is open that runs the next call at once. */
  readonly isOpen: boolean
}

/** Weight of the newest call in the mean time of a call, and the longest time that counts: it takes four slow calls to be slow. */
const NEWEST_CALL_WEIGHT = 1 / 16
const MAX_SAMPLE_MS = 5 * SLOW_MS

class SingleInstanceEngine implements InlineEngine {
  readonly name = 'inline'
  readonly trouble = undefined
  readonly ready: Promise<void>
  readonly #options: InlineOptions
  readonly #instances: Instances
  readonly #turns: TurnScheduler | undefined
  readonly #waiting: WaitingCalls
  /** Whether a call is running or an instance is being opened. */
  #busy = false
  /** Whether calls wait for turns: the last one was slow. */
  #takesTurns = false
  /** Mean time of a call, in ms. */
  #meanMs = 0
  /** Whether its guest runs in slices: its last call was longer than one. */
  #isSliced = false
  /** Whether it waits for a turn. */
  #waitsForTurn = false
  /** Whether waiting calls are being run. */
  #isDraining = false
  #opening: Promise<void> | undefined
  #closed = false
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(options: InlineOptions) {
    this.#options = options
    this.#instances = new Instances(options)
    this.#turns = options.turns
    this.#waiting = new WaitingCalls(options)
    this.ready = this.#open()
    this.ready.catch(() => undefined) // the rejection also reaches `ready` and the callers
  }

  get changes(): number {
    return this.#instances.changes
  }

  get isOpen(): boolean {
    return !this.#busy && this.#instances.hasIdle
  }

  get stats(): EngineStats {
    return { ...this.#instances.stats, waiting: this.#waiting.length, running: this.#busy ? 1 : 0 }
  }

  call(
    exportName: string,
    input: ByteSource,
    caller: Caller,
  ): Uint8Array | Promise<Uint8Array> | PendingCall {
    if (this.#closed) throw new EngineClosedError()
    const mayRun = !this.#busy && !this.#takesTurns
    const idle = mayRun ? this.#instances.take() : undefined
    if (idle) return this.#run(idle, exportName, input, caller)
    caller.observer?.queued()
    const opened = mayRun ? this.#openNow() : undefined
    if (opened) return this.#run(opened, exportName, input, caller)
    const call = new PendingCall(exportName, input, caller)
    // The calls of a fast guest after a slow one, such as one with a garbage collection, wait for a moment only.
    this.#waiting.push(call, { isCounted: this.#busy || this.#isSlow })
    if (!this.#busy) this.#waitForTurn()
    return call
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#closed = true
    if (this.#busy || this.#waiting.length > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.#instances.close()
  }

  #run(
    owned: OwnedInstance,
    exportName: string,
    input: ByteSource,
    caller: Caller,
  ): Uint8Array | Promise<Uint8Array> {
    this.#busy = true
    const since = this.#turns ? performance.now() : 0
    const sliced = this.#isSliced ? this.#openSlices(exportName, caller) : undefined
    let output: Uint8Array | Promise<Uint8Array>
    try {
      output = this.#instances.run(owned, exportName, input, caller, sliced)
    } catch (error) {
      this.#noteTime(since)
      this.#failed(owned, error, caller)
      throw error
    }
    if (!(output instanceof Promise)) {
      this.#noteTime(since)
      this.#ended(owned, caller)
      return output
    }
    if (!sliced) this.#noteTime(since)
    return output.then(
      (bytes) => {
        if (sliced) this.#isSliced = sliced.hasPaused
        this.#ended(owned, caller)
        return bytes
      },
      (error) => {
        if (sliced) this.#isSliced = sliced.hasPaused
        this.#failed(owned, error, caller)
        throw error
      },
    )
  }

  #openSlices(exportName: string, caller: Caller): SlicedCall {
    const { timeoutMs = 0, watch } = this.#options
    return new SlicedCall(exportName, caller, timeoutMs, watch)
  }

  /** Whether its guest is slow, and not only its last call. */
  get #isSlow(): boolean {
    return this.#meanMs > SLOW_MS
  }

  /** @param since - When the call began. */
  #noteTime(since: number): void {
    if (!this.#turns) return
    const ms = performance.now() - since
    this.#takesTurns = ms > SLOW_MS
    this.#isSliced = ms > SLICE_MS
    this.#meanMs += (Math.min(ms, MAX_SAMPLE_MS) - this.#meanMs) * NEWEST_CALL_WEIGHT
    if (this.#isSlow) this.#waiting.dropExcess()
  }

  #ended(owned: OwnedInstance, caller: Caller): void {
    this.#instances.ended(owned, caller)
    this.#busy = false
    if (this.#waiting.length > 0 || this.#onIdle) this.#next()
  }

  #failed(owned: OwnedInstance, error: unknown, caller: Caller): void {
    const survives = this.#instances.failed(owned, error, caller)
    this.#busy = false
    // A start would be interrupted like the call: the next call opens the instance.
    if (!survives && !isInterrupted())
      this.#open().catch((reason) =>
        this.#options.settings.log.error(errorFields(reason), 'an instance could not be replaced'),
      )
    this.#next()
  }

  /** Runs queued calls until one does not complete synchronously. */
  #next(): void {
    if (this.#isDraining) return // each call that ends asks for the next
    this.#isDraining = true
    while (!this.#busy) {
      const call = this.#waiting.first
      if (!call) {
        this.#onIdle?.()
        break
      }
      if (this.#takesTurns) {
        this.#waitForTurn()
        break
      }
      this.#runWaiting(call)
    }
    this.#isDraining = false
  }

  /** @param call - The first that waits. */
  #runWaiting(call: PendingCall): void {
    try {
      const owned = this.#instances.take() ?? this.#openNow()
      if (!owned) return
      this.#waiting.shift()
      settleWith(call, this.#run(owned, call.exportName, call.input, call.caller))
    } catch (error) {
      if (this.#waiting.first === call) this.#waiting.shift()
      call.reject(error)
    }
  }

  #waitForTurn(): void {
    if (this.#waitsForTurn) return
    this.#waitsForTurn = true
    this.#turns?.wait(() => this.#takeTurn())
  }

  /** Runs the first call whose client is still there. */
  #takeTurn(): void {
    this.#waitsForTurn = false
    while (this.#waiting.first?.caller.isGone) this.#waiting.shift()?.reject(new ClientGoneError())
    this.#isDraining = true // it is answered before others run
    const call = this.#waiting.first
    if (call && !this.#busy) this.#runWaiting(call)
    this.#isDraining = false
    this.#next()
  }

  /**
   * An instance, if the runtime can open it synchronously; otherwise queued calls run when it is open.
   *
   * @throws {@link InstanceStartError}
   */
  #openNow(): OwnedInstance | undefined {
    const opened = this.#instances.open()
    if (!(opened instanceof Promise)) return opened
    this.#busy = true
    this.#opening = opened.then(
      (owned) => {
        this.#instances.giveBack(owned)
        this.#busy = false
        this.#next()
      },
      (error) => {
        this.#busy = false
        this.#waiting.rejectAll(error)
        this.#next()
        throw error
      },
    )
    this.#opening.catch(() => undefined) // the waiting calls are rejected
    return undefined
  }

  async #open(): Promise<void> {
    const opened = this.#openNow()
    if (opened) this.#instances.giveBack(opened)
    else await this.#opening
  }
}
