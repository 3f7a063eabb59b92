import type { EngineStats } from '../observe/metrics.ts'
import type { Caller } from '../observe/observe.ts'

/** Where a plug-in's instances live: it schedules their calls and replaces an instance that failed. */
export interface Engine {
  readonly name: 'inline' | 'workers' | 'subprocess'

  /** A current problem to report to the operator, or undefined. */
  readonly trouble: string | undefined

  /** Computed on each read. Counters keep their final values after `close()`. */
  readonly stats: EngineStats

  /** Settles when the first instance is open, or could not be opened. Calls may be made before. */
  readonly ready: Promise<void>

  /**
   * Runs one export of the guest. Calls may overlap: they wait their turn.
   *
   * @param input - Bytes for the guest. The engine takes ownership: the caller must not change them.
   * @returns The output of the guest; not a promise where nothing had to be waited for.
   * @throws {@link GuestError} if the guest said no, {@link GuestTrapError}, {@link GuestExitError} or
   * {@link OutputTooLargeError} if it failed (its instance is replaced), {@link QueueFullError} when `maxQueue`
   * calls wait, {@link EngineClosedError} after `close`, {@link InstanceStartError} if there is no instance and none
   * can be opened. With threads and processes also {@link DeadlineError}, {@link WorkerLostError}, {@link QueueSlowError},
   * {@link BreakerOpenError}, {@link ThreadsStuckError} and {@link ClientGoneError}.
   */
  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array> | PendingCall

  /** Takes no more calls, lets those that wait or run end, and closes the instances. */
  close(): Promise<void>
}

/** When an instance is replaced. */
export interface Isolation {
  /** `reuse`: its memory and globals stay from call to call. `fresh`: each call has an instance of its own. */
  readonly isolation: 'reuse' | 'fresh'
  /** After how many calls it is replaced. */
  readonly recycle?: number | undefined
  /** Beyond how many bytes of memory it is replaced: memory never shrinks. */
  readonly recycleMemory: number
  /** If it also has grown by so many bytes since it was opened. Default: 0. */
  readonly recycleGrowth?: number
}

type OnOutput = (output: Uint8Array) => void
type OnError = (error: unknown) => void

/**
 * A call that is answered later. It can be awaited as a promise; callbacks of {@link subscribe} run without a turn of the
 * microtask queue.
 */
export class PendingCall implements PromiseLike<Uint8Array> {
  readonly exportName: string
  readonly input: Uint8Array
  readonly caller: Caller
  /** When it was made, on the main thread's `performance.now()`. */
  readonly madeAt = performance.now()
  /** How often its guest was started without ending. */
  tries = 0
  #onOutput: OnOutput | undefined
  #onError: OnError | undefined
  /** Set once it is settled. */
  #settled: (() => void) | undefined
  #promise: Promise<Uint8Array> | undefined

  constructor(exportName: string, input: Uint8Array, caller: Caller) {
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

  // biome-ignore lint/suspicious/noThenProperty: it is there to be awaited
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
  /** Takes no more calls, and rejects those that it has. */
  endCalls(): void
}

const openEndables = new Set<Endable>()

/** @returns a function that ends the tracking, to be called when it is closed. */
export function trackEndable(endable: Endable): () => void {
  openEndables.add(endable)
  return () => openEndables.delete(endable)
}

/** Ends all calls of the process, which is about to end. */
export function endCalls(): void {
  for (const endable of openEndables) endable.endCalls()
}
