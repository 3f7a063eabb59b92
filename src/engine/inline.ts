import { BodyTooLargeError, EngineClosedError, GuestError, QueueFullError } from '../errors.ts'
import type { Caller, Instance } from '../runtime/runtime.ts'
import type { Engine, EngineOptions } from './engine.ts'

/** One instance on the event loop, one call at a time. Nothing here can stop a guest that does not return. */
export function openInline(options: EngineOptions): Engine {
  return new InlineEngine(options)
}

interface WaitingCall {
  readonly exportName: string
  readonly input: Uint8Array
  readonly caller: Caller
  readonly resolve: (output: Uint8Array | Promise<Uint8Array>) => void
  readonly reject: (error: unknown) => void
}

class InlineEngine implements Engine {
  readonly name = 'inline'
  readonly ready: Promise<void>
  readonly #options: EngineOptions
  readonly #waiting: WaitingCall[] = []
  /** None while one is being opened, and after one could not be opened: then the next call tries again. */
  #instance: Instance | undefined
  /** A call is running, or an instance is being opened. */
  #busy = false
  #closed = false
  #onIdle: (() => void) | undefined

  constructor(options: EngineOptions) {
    this.#options = options
    this.ready = this.#open()
    this.ready.catch(() => undefined) // those who wait for it and those who call are told
  }

  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array> {
    if (this.#closed) throw new EngineClosedError()
    if (this.#instance && !this.#busy) return this.#run(this.#instance, exportName, input, caller)
    if (this.#waiting.length >= this.#options.maxQueue) throw new QueueFullError(this.#options.maxQueue)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ exportName, input, caller, resolve, reject })
      this.#next()
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#busy || this.#waiting.length > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.#instance?.close()
    this.#instance = undefined
  }

  #run(
    instance: Instance,
    exportName: string,
    input: Uint8Array,
    caller: Caller,
  ): Uint8Array | Promise<Uint8Array> {
    this.#busy = true
    let output: Uint8Array | Promise<Uint8Array>
    try {
      output = instance.call(exportName, input, caller)
    } catch (error) {
      this.#failed(instance, error)
      throw error
    }
    if (!(output instanceof Promise)) {
      this.#busy = false
      return output
    }
    return output.then(
      (bytes) => {
        this.#busy = false
        this.#next()
        return bytes
      },
      (error) => {
        this.#failed(instance, error)
        throw error
      },
    )
  }

  /** A guest that said no goes on; one that was thrown out of half-way is replaced before the next call. */
  #failed(instance: Instance, error: unknown): void {
    this.#busy = false
    if (error instanceof GuestError || error instanceof BodyTooLargeError) {
      this.#next()
      return
    }
    this.#instance = undefined
    instance
      .close()
      .catch((reason) => this.#options.settings.log.warn({ err: reason }, 'an instance did not close'))
    this.#open().catch((reason) =>
      this.#options.settings.log.error({ err: reason }, 'an instance was not replaced'),
    )
  }

  #next(): void {
    while (!this.#busy) {
      const call = this.#waiting[0]
      if (!call) {
        this.#onIdle?.()
        return
      }
      if (!this.#instance) {
        this.#open().catch(() => undefined) // the calls that wait are told
        return
      }
      this.#waiting.shift()
      try {
        call.resolve(this.#run(this.#instance, call.exportName, call.input, call.caller))
      } catch (error) {
        call.reject(error)
      }
    }
  }

  async #open(): Promise<void> {
    const { plugin, runtime, settings } = this.#options
    this.#busy = true
    try {
      this.#instance = await runtime.open(plugin, settings)
    } catch (error) {
      for (const { reject } of this.#waiting.splice(0)) reject(error)
      throw error
    } finally {
      this.#busy = false
      this.#next()
    }
  }
}
