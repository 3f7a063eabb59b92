import type { Caller } from '../observe/observe.ts'

type OnOutput = (output: Uint8Array) => void
type OnError = (error: unknown) => void

/**
 * A call that is answered later. It can be awaited as a promise; who {@link tell | asks to be told} is told at once,
 * not in a turn of the microtask queue of its own.
 */
export class PendingCall implements PromiseLike<Uint8Array> {
  readonly exportName: string
  readonly input: Uint8Array
  readonly caller: Caller
  /** When it was made, on the main thread's `performance.now()`. */
  readonly madeAt = performance.now()
  /** How often its guest was begun and did not end. */
  tries = 0
  #onOutput: OnOutput | undefined
  #onError: OnError | undefined
  /** There once it is settled. */
  #settled: (() => void) | undefined
  #promise: Promise<Uint8Array> | undefined

  constructor(exportName: string, input: Uint8Array, caller: Caller) {
    this.exportName = exportName
    this.input = input
    this.caller = caller
  }

  /** Of the two, one is called, once. There can be one who is told; what they throw is nobody's to catch. */
  tell(onOutput: OnOutput, onError: OnError): void {
    this.#onOutput = onOutput
    this.#onError = onError
    if (this.#settled) throwLater(this.#settled)
  }

  // biome-ignore lint/suspicious/noThenProperty: it is there to be awaited
  then<Done = Uint8Array, Failed = never>(
    onOutput?: ((output: Uint8Array) => Done | PromiseLike<Done>) | null,
    onError?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Done | Failed> {
    this.#promise ??= new Promise((resolve, reject) => this.tell(resolve, reject))
    return this.#promise.then(onOutput, onError)
  }

  resolve(output: Uint8Array): void {
    this.#settle(() => this.#onOutput?.(output))
  }

  reject(error: unknown): void {
    this.#settle(() => this.#onError?.(error))
  }

  /** The first time counts. */
  #settle(tell: () => void): void {
    if (this.#settled) return
    this.#settled = tell
    if (this.#onOutput) throwLater(tell)
  }
}

/** The one who settles a call has others to settle. */
function throwLater(tell: () => void): void {
  try {
    tell()
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}
