import type { EngineStats } from '../observe/engine-stats.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'

/** Runs a plug-in's instances: it schedules their calls and replaces failed instances. */
export interface Engine {
  readonly name: 'inline' | 'workers' | 'subprocess'

  /** A current problem to report to the operator, or undefined. */
  readonly trouble: string | undefined

  /** Computed on each read. Counters keep their final values after `close()`. */
  readonly stats: EngineStats

  /** Settles when the first instance is open or has failed to open. Calls may be made before. */
  readonly ready: Promise<void>

  /**
   * Runs one export of the guest. Calls may overlap: they are queued.
   *
   * @param input - Bytes for the guest. The engine takes ownership: the caller must not change them.
   * @returns the output of the guest. It is a promise only if the call had to wait.
   * @throws {@link GuestError} if the guest returned an error, {@link GuestTrapError}, {@link GuestExitError} or
   * {@link OutputTooLargeError} if it failed (its instance is replaced), {@link QueueFullError} when `maxQueue`
   * calls wait, {@link EngineClosedError} after `close`, {@link InstanceStartError} if there is no instance and none
   * can be opened. With threads and processes also {@link DeadlineError}, {@link WorkerLostError}, {@link QueueSlowError},
   * {@link BreakerOpenError}, {@link ThreadsStuckError} and {@link ClientGoneError}.
   */
  call(exportName: string, input: ByteSource, caller: Caller): Uint8Array | Promise<Uint8Array> | PendingCall

  /** Accepts no more calls, completes queued and running ones, and closes the instances. */
  close(): Promise<void>
}

/** When an instance is replaced. */
export interface Isolation {
  /** `reuse`: memory and globals stay between calls. `fresh`: each call has a new instance. */
  readonly isolation: 'reuse' | 'fresh'
  /** Number of calls after which it is replaced. */
  readonly recycle?: number | undefined
  /** Memory size in bytes above which it is replaced: memory never shrinks. */
  readonly recycleMemory: number
  /** Additional condition: its memory has grown by this many bytes since it was opened. Default: 0. */
  readonly recycleGrowth?: number
}

type OnOutput = (output: Uint8Array) => void
type OnError = (error: unknown) => void

/**
 * A call that completes later. It can be awaited as a promise. Callbacks of {@link subscribe} run without a turn of the
 * microtask queue.
 */
export class PendingCall implements PromiseLike<Uint8Array> {
  readonly exportName: string
  readonly input: ByteSource
  readonly caller: Caller
  /** Creation time on the main thread's `performance.now()`. */
  readonly madeAt = performance.now()
  /** How often its guest was started without completing. */
  tries = 0
  #onOutput: OnOutput | undefined
  #onError: OnError | undefined
  /** Set when it is settled. */
  #settled: (() => void) | undefined
  #promise: Promise<Uint8Array> | undefined

  constructor(exportName: string, input: ByteSource, caller: Caller) {
    this.exportName = exportName
    this.input = input
    this.caller = caller
  }

  /** Exactly one callback runs, once. There is one subscriber. An error that it throws becomes an uncaught exception. */
  subscribe(onOutput: OnOutput, onError: OnError): void {
    this.#onOutput = onOutput
    this.#onError = onError
    if (this.#settled) throwLater(this.#settled)
  }

  // biome-ignore lint/suspicious/noThenProperty: a call can be awaited without another promise
  then<Done = Uint8Array, Failed = never>(
    onOutput?: ((output: Uint8Array) => Done | PromiseLike<Done>) | null,
    onError?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Done | Failed> {
    this.#promise ??= new Promise((resolve, reject) => this.subscribe(resolve, reject))
    return this.#promise.then(onOutput, onError)
  }

  resolve(output: Uint8Array): void {
    this.#settle(() => this.#onOutput?.(output))
  }

  reject(error: unknown): void {
    this.#settle(() => this.#onError?.(error))
  }

  /** Only the first call has an effect. */
  #settle(notify: () => void): void {
    if (this.#settled) return
    this.#settled = notify
    if (this.#onOutput) throwLater(notify)
  }
}

/** Settles a call with the result of another one. */
export function settleWith(call: PendingCall, result: ReturnType<Engine['call']>): void {
  if (result instanceof Uint8Array) {
    call.resolve(result)
    return
  }
  const [onOutput, onError] = [
    (output: Uint8Array) => call.resolve(output),
    (error: unknown) => call.reject(error),
  ]
  if (result instanceof PendingCall) result.subscribe(onOutput, onError)
  else result.then(onOutput, onError)
}

/** Whether a running call is to be ended, because its client has disconnected. */
export function isCancelRequested({ caller }: Pick<PendingCall, 'caller'>): boolean {
  return caller.isCancelledWhenGone === true && caller.isGone === true
}

/** An error of one subscriber must not stop the loop that settles calls: it is thrown from a microtask. */
function throwLater(notify: () => void): void {
  try {
    notify()
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}

/** An engine whose calls can be ended before they are complete. */
export interface Endable {
  /** Accepts no more calls and rejects the current ones. */
  endCalls(): void
}

const openEndables = new Set<Endable>()

/** @returns a function that stops the tracking. Call it when the engine is closed. */
export function trackEndable(endable: Endable): () => void {
  openEndables.add(endable)
  return () => openEndables.delete(endable)
}

/** Ends all calls of the process before it exits. */
export function endCalls(): void {
  for (const endable of openEndables) endable.endCalls()
}
