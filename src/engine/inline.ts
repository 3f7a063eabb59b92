import {
  BodyTooLargeError,
  ClientGoneError,
  EngineClosedError,
  GuestError,
  QueueFullError,
} from '../errors/errors.ts'
import { errorFields } from '../errors/failure.ts'
import { LineRate } from '../observe/log/guest-log.ts'
import type { EngineStats } from '../observe/metrics.ts'
import type { Caller } from '../observe/observe.ts'
import type { CopiedBytes } from '../platform/pieces.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { Instance, InstanceSettings, Runtime } from '../runtime/runtime.ts'
import type { Engine, Isolation } from './engine.ts'
import { SLOW_MS, type TurnScheduler } from './turn-scheduler.ts'
import type { StallWatch } from './watchdog.ts'

/** One instance on the event loop, one call at a time. A guest that does not return cannot be stopped. */
export function openInline(options: InlineOptions): InlineEngine {
  return new SingleInstanceEngine(options)
}

export interface InlineOptions extends Isolation {
  readonly plugin: CompiledPlugin
  readonly runtime: Runtime
  readonly settings: InstanceSettings
  /** The maximum number of calls that wait for an instance. */
  readonly maxQueue: number
  /** Detects a guest that blocks the event loop; closed with the engine. Default: no detection. */
  readonly watch?: StallWatch | undefined
  /** Where calls wait while the guest is slow. Default: they wait for its previous calls only. */
  readonly turns?: TurnScheduler | undefined
}

export interface InlineEngine extends Engine {
  readonly name: 'inline'
  call(exportName: string, input: CopiedBytes, caller: Caller): Uint8Array | Promise<Uint8Array>
  /** Incremented when stats change other than those of queued and running calls. */
  readonly changes: number
}

interface WaitingCall {
  readonly exportName: string
  readonly input: CopiedBytes
  readonly caller: Caller
  readonly resolve: (output: Uint8Array | Promise<Uint8Array>) => void
  readonly reject: (error: unknown) => void
}

class SingleInstanceEngine implements InlineEngine {
  readonly name = 'inline'
  readonly trouble = undefined
  readonly ready: Promise<void>
  changes = 0
  readonly #options: InlineOptions
  readonly #watch: StallWatch | undefined
  readonly #turns: TurnScheduler | undefined
  readonly #waiting: WaitingCall[] = []
  /** undefined until a call needs one: at the start, and after recycling or failure. */
  #instance: Instance | undefined
  /** Number of calls of the instance. */
  #calls = 0
  #bytesAtOpen = 0
  #memoryBytes = 0
  #recycled = 0
  #restarted = 0
  #droppedLines = 0
  /** Whether a call is running or an instance is being opened. */
  #busy = false
  /** Whether calls wait for turns: the last one was slow. */
  #takesTurns = false
  /** Whether it waits for a turn. */
  #waitsForTurn = false
  /** Whether waiting calls are being run. */
  #isDraining = false
  #opening: Promise<void> | undefined
  #closed = false
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(options: InlineOptions) {
    const onDroppedLines = (lines: number) => {
      this.#droppedLines += lines
      this.changes++
    }
    const { logRate } = options.settings
    const lineRate = logRate === undefined ? undefined : new LineRate(logRate)
    const isolation = options.settings.command ? 'fresh' : options.isolation // a program runs once per instance
    const watch = options.watch
    const onResume = watch ? () => watch.watchTurn() : options.settings.onResume
    const settings = { ...options.settings, onDroppedLines, lineRate, onResume }
    this.#options = { ...options, isolation, settings }
    this.#watch = watch
    this.#turns = options.turns
    this.ready = this.#open()
    this.ready.catch(() => undefined) // the rejection also reaches `ready` and the callers
  }

  get stats(): EngineStats {
    const kernelBytes = this.#instance?.kernelBytes ?? 0
    return {
      waiting: this.#waiting.length,
      running: this.#busy ? 1 : 0,
      instances: this.#instance ? 1 : 0,
      guestBytes: (this.#instance?.memoryBytes ?? 0) - kernelBytes,
      kernelBytes,
      recycled: this.#recycled,
      restarted: this.#restarted,
      timeouts: 0,
      stuck: 0,
      droppedLines: this.#droppedLines,
      isBreakerOpen: false,
    }
  }

  call(exportName: string, input: CopiedBytes, caller: Caller): Uint8Array | Promise<Uint8Array> {
    if (this.#closed) throw new EngineClosedError()
    const mayRun = !this.#busy && !this.#takesTurns
    if (mayRun && this.#instance) return this.#run(this.#instance, exportName, input, caller)
    caller.observer?.queued()
    if (mayRun) {
      const instance = this.#openNow()
      if (instance) return this.#run(instance, exportName, input, caller)
    }
    // Calls that only wait for their turn do not count against maxQueue.
    if (this.#waiting.length >= this.#options.maxQueue && !this.#waitsForTurn)
      throw new QueueFullError(`${this.#options.maxQueue} calls`)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ exportName, input, caller, resolve, reject })
      if (!this.#busy) this.#waitForTurn()
    })
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#closed = true
    if (this.#busy || this.#waiting.length > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    try {
      await this.#instance?.close()
    } finally {
      this.#watch?.close()
    }
    this.#instance = undefined
  }

  #run(
    instance: Instance,
    exportName: string,
    input: CopiedBytes,
    caller: Caller,
  ): Uint8Array | Promise<Uint8Array> {
    this.#busy = true
    this.#calls++
    caller.observer?.started()
    const watch = this.#watch
    watch?.beginCall()
    const since = this.#turns ? performance.now() : 0
    let output: Uint8Array | Promise<Uint8Array>
    try {
      output = instance.call(exportName, input, caller)
    } catch (error) {
      watch?.end()
      this.#noteTime(since)
      caller.observer?.ended()
      this.#failed(instance, error)
      throw error
    }
    watch?.end()
    this.#noteTime(since)
    if (!(output instanceof Promise)) {
      caller.observer?.ended()
      this.#ended(instance)
      return output
    }
    watch?.watchTurn()
    return output.then(
      (bytes) => {
        caller.observer?.ended()
        this.#ended(instance)
        return bytes
      },
      (error) => {
        caller.observer?.ended()
        this.#failed(instance, error)
        throw error
      },
    )
  }

  /** @param since - When the call began. */
  #noteTime(since: number): void {
    if (this.#turns) this.#takesTurns = performance.now() - since > SLOW_MS
  }

  #ended(instance: Instance): void {
    const { memoryBytes } = instance
    if (memoryBytes !== this.#memoryBytes) {
      this.#memoryBytes = memoryBytes
      this.changes++
    }
    if (instance.hasExited || isWorn(this.#options, memoryBytes, this.#calls, this.#bytesAtOpen)) {
      this.#recycled++
      this.#retire(instance)
    }
    this.#busy = false
    if (this.#waiting.length > 0 || this.#onIdle) this.#next()
  }

  /** An instance survives an error that the guest set. After a trap (the error has a cause) it is never used again. */
  #failed(instance: Instance, error: unknown): void {
    const isGuestError = error instanceof GuestError && error.cause === undefined
    if (isGuestError || error instanceof BodyTooLargeError) {
      this.#ended(instance)
      return
    }
    this.#restarted++
    this.#retire(instance)
    this.#busy = false
    this.#open().catch((reason) =>
      this.#options.settings.log.error(errorFields(reason), 'an instance was not replaced'),
    )
    this.#next()
  }

  #retire(instance: Instance): void {
    this.#instance = undefined
    this.changes++
    instance
      .close()
      .catch((reason) => this.#options.settings.log.warn({ err: reason }, 'an instance did not close'))
  }

  /** Runs queued calls until one does not complete synchronously. */
  #next(): void {
    if (this.#isDraining) return // each call that ends asks for the next
    this.#isDraining = true
    while (!this.#busy) {
      const call = this.#waiting[0]
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
  #runWaiting(call: WaitingCall): void {
    try {
      const instance = this.#instance ?? this.#openNow()
      if (!instance) return
      this.#waiting.shift()
      call.resolve(this.#run(instance, call.exportName, call.input, call.caller))
    } catch (error) {
      if (this.#waiting[0] === call) this.#waiting.shift()
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
    while (this.#waiting[0]?.caller.isGone) this.#waiting.shift()?.reject(new ClientGoneError())
    this.#isDraining = true // it is answered before others run
    const [call] = this.#waiting
    if (call && !this.#busy) this.#runWaiting(call)
    this.#isDraining = false
    this.#next()
  }

  /**
   * An instance, if the runtime can open it synchronously; otherwise queued calls run when it is open.
   *
   * @throws {@link InstanceStartError}
   */
  #openNow(): Instance | undefined {
    this.#calls = 0
    const opened = this.#openInstance()
    if (!(opened instanceof Promise)) {
      this.#take(opened)
      return opened
    }
    this.#busy = true
    this.#opening = opened.then(
      (instance) => {
        this.#take(instance)
        this.#busy = false
        this.#next()
      },
      (error) => {
        this.#busy = false
        for (const { reject } of this.#waiting.splice(0)) reject(error)
        this.#next()
        throw error
      },
    )
    this.#opening.catch(() => undefined) // the waiting calls are rejected
    return undefined
  }

  #openInstance(): Instance | Promise<Instance> {
    const { plugin, runtime, settings } = this.#options
    const watch = this.#watch
    if (!watch) return runtime.open(plugin, settings)
    watch.beginStart()
    try {
      return runtime.open(plugin, settings)
    } finally {
      watch.end()
    }
  }

  #take(instance: Instance): void {
    this.#instance = instance
    this.#bytesAtOpen = instance.memoryBytes
    this.#memoryBytes = instance.memoryBytes
    this.changes++
  }

  async #open(): Promise<void> {
    if (!this.#openNow()) await this.#opening
  }
}

/**
 * Whether an instance is replaced after its last call.
 *
 * @param memoryBytes - Its current memory.
 * @param bytesAtOpen - Its memory when it was opened.
 */
export function isWorn(
  { isolation, recycle, recycleMemory, recycleGrowth = 0 }: Isolation,
  memoryBytes: number,
  calls: number,
  bytesAtOpen: number,
): boolean {
  return (
    isolation === 'fresh' ||
    (recycle !== undefined && calls >= recycle) ||
    (memoryBytes > recycleMemory && memoryBytes > bytesAtOpen + recycleGrowth)
  )
}
