import {
  BodyTooLargeError,
  DeadlineError,
  EngineClosedError,
  GuestError,
  GuestTrapError,
} from '../errors/errors.ts'
import { type EngineStats, NO_STATS } from '../observe/engine-stats.ts'
import { LineRate } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'
import { thenMaybe } from '../platform/maybe-promise.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { Instance, InstanceSettings, Runtime } from '../runtime/runtime.ts'
import type { Isolation } from './engine.ts'
import type { SlicedCall } from './slices.ts'
import type { StallWatch } from './watchdog.ts'

export interface InstancesOptions extends Isolation {
  readonly plugin: CompiledPlugin
  readonly runtime: Runtime
  readonly settings: InstanceSettings
  /** Detects a guest that blocks this thread; closed with the instances. Default: no detection. */
  readonly watch?: StallWatch | undefined
  /** The time after which it interrupts a call, for messages. */
  readonly timeoutMs?: number | undefined
}

/** An instance, which runs one call at a time. */
export interface OwnedInstance {
  readonly instance: Instance
  readonly bytesAtOpen: number
  /** Number of its calls. */
  calls: number
  memoryBytes: number
}

/** Number of idle instances that are kept. As many as there are running ones are kept, too. */
const MIN_IDLE = 8

/** The instances of a plug-in in this thread: opened when a call needs one, replaced when they are worn or have failed. */
export class Instances {
  /** Incremented when stats change other than those of running calls. */
  changes = 0
  readonly #options: InstancesOptions
  readonly #all = new Set<OwnedInstance>()
  /** Last in, first out. */
  readonly #idle: OwnedInstance[] = []
  #recycled = 0
  #restarted = 0
  #timeouts = 0
  #droppedLines = 0
  #checks = 0
  #isClosed = false
  #onIdle: (() => void) | undefined

  constructor(options: InstancesOptions) {
    const { settings, watch } = options
    const { logRate } = settings
    this.#options = {
      ...options,
      isolation: settings.command ? 'fresh' : options.isolation, // a program runs once per instance
      settings: {
        ...settings,
        onDroppedLines: (lines) => {
          this.#droppedLines += lines
          this.changes++
        },
        lineRate: logRate === undefined ? undefined : new LineRate(logRate),
        onResume: watch ? () => watch.watchTurn() : settings.onResume,
      },
    }
  }

  /** Computed on each read. Counters keep their final values after `close()`. */
  get stats(): EngineStats {
    const all = [...this.#all].map(({ instance }) => instance)
    const kernelBytes = all.reduce((sum, instance) => sum + instance.kernelBytes, 0)
    return {
      ...NO_STATS,
      running: this.#running,
      instances: all.length,
      guestBytes: all.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0) - kernelBytes,
      kernelBytes,
      recycled: this.#recycled,
      restarted: this.#restarted,
      timeouts: this.#timeouts,
      droppedLines: this.#droppedLines,
      checks: this.#checks,
    }
  }

  /** Opens an instance for the first call. @throws as {@link open} does. */
  async openFirst(): Promise<void> {
    const opened = this.open()
    this.giveBack(opened instanceof Promise ? await opened : opened)
  }

  get hasIdle(): boolean {
    return this.#idle.length > 0
  }

  /** An idle instance for a call. */
  take(): OwnedInstance | undefined {
    return this.#idle.pop()
  }

  /** A new instance for a call: a promise if the runtime cannot open it synchronously. @throws {@link InstanceStartError} */
  open(): OwnedInstance | Promise<OwnedInstance> {
    const { plugin, runtime, settings, watch } = this.#options
    watch?.beginStart()
    try {
      return thenMaybe(runtime.open(plugin, settings), (instance) => {
        const { memoryBytes } = instance
        const owned = { instance, bytesAtOpen: memoryBytes, calls: 0, memoryBytes }
        this.#all.add(owned)
        this.changes++
        return owned
      })
    } finally {
      watch?.end()
    }
  }

  /** Keeps an instance that has run no call. */
  giveBack(owned: OwnedInstance): void {
    if (this.#isClosed) this.#retire(owned)
    else this.#idle.push(owned)
  }

  /**
   * Runs the guest until it returns or is suspended. {@link ended} or {@link failed} has to follow.
   *
   * @param sliced - Lets others run in between, where the guest can be suspended.
   */
  run(
    owned: OwnedInstance,
    exportName: string,
    input: ByteSource,
    caller: Caller,
    sliced?: SlicedCall,
  ): Uint8Array | Promise<Uint8Array> {
    const { watch } = this.#options
    owned.calls++
    caller.observer?.started()
    if (!watch) return owned.instance.call(exportName, input, caller, sliced?.pause)
    watch.beginCall()
    let output: Uint8Array | Promise<Uint8Array>
    try {
      output = owned.instance.call(exportName, input, caller, sliced?.pause)
    } catch (error) {
      watch.end()
      throw this.#explained(error, exportName)
    }
    const isInterrupted = watch.end()
    if (!(output instanceof Promise)) {
      if (isInterrupted) watch.takeInterruption() // it returned before it looked
      return output
    }
    watch.watchTurn()
    return output.then(
      (bytes) => {
        if (sliced?.endReason) watch.takeInterruption()
        return bytes
      },
      (error) => {
        throw this.#explained(error, exportName, sliced?.endReason)
      },
    )
  }

  /** A guest that was interrupted has trapped. @param reason - Default: the deadline of the watch. */
  #explained(error: unknown, exportName: string, reason?: Error): unknown {
    const { watch, timeoutMs } = this.#options
    if (timeoutMs === undefined || !(error instanceof GuestTrapError) || !watch?.takeInterruption())
      return error
    const explained = reason ?? new DeadlineError(exportName, timeoutMs)
    if (explained instanceof DeadlineError) this.#timeouts++
    return explained
  }

  ended(owned: OwnedInstance, caller: Caller): void {
    caller.observer?.ended()
    this.#countChecks(owned)
    const { memoryBytes, hasExited } = owned.instance
    if (memoryBytes !== owned.memoryBytes) {
      owned.memoryBytes = memoryBytes
      this.changes++
    }
    if (hasExited || isWorn(this.#options, owned)) {
      this.#recycled++
      this.#retire(owned)
    } else {
      this.#idle.push(owned)
      if (this.#idle.length > MIN_IDLE) this.#trim()
    }
    if (this.#onIdle && this.#running === 0) this.#onIdle()
  }

  /**
   * An instance survives an error that the guest set. After a trap (the error has a cause) it is never used again.
   *
   * @returns whether it survives.
   */
  failed(owned: OwnedInstance, error: unknown, caller: Caller): boolean {
    const isUsable = (error instanceof GuestError && !error.cause) || error instanceof BodyTooLargeError
    if (isUsable) {
      this.ended(owned, caller)
      return true
    }
    caller.observer?.ended()
    this.#countChecks(owned)
    this.#restarted++
    this.#retire(owned)
    if (this.#onIdle && this.#running === 0) this.#onIdle()
    return false
  }

  /** Runs a call immediately, on an instance that no other call uses. @throws {@link InstanceStartError}, and the errors of the guest as `Engine.call`. */
  async call(exportName: string, input: ByteSource, caller: Caller): Promise<Uint8Array> {
    if (this.#isClosed) throw new EngineClosedError()
    const opened = this.take() ?? this.open()
    const owned = opened instanceof Promise ? await opened : opened
    if (this.#isClosed) {
      this.#retire(owned)
      throw new EngineClosedError()
    }
    let output: Uint8Array
    try {
      output = await this.run(owned, exportName, input, caller)
    } catch (error) {
      this.failed(owned, error, caller)
      throw error
    }
    this.ended(owned, caller)
    return output
  }

  /** Waits for the running calls. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    try {
      await Promise.all([...this.#all].map(({ instance }) => instance.close()))
    } finally {
      this.#all.clear()
      this.#idle.length = 0
      this.#options.watch?.close()
    }
  }

  #countChecks({ instance: { checks } }: OwnedInstance): void {
    if (checks === undefined) return
    this.#checks += checks
    this.changes++
  }

  get #running(): number {
    return this.#all.size - this.#idle.length
  }

  #trim(): void {
    while (this.#idle.length > Math.max(MIN_IDLE, this.#running)) {
      const oldest = this.#idle.shift()
      if (oldest) this.#retire(oldest)
    }
  }

  #retire(owned: OwnedInstance): void {
    this.#all.delete(owned)
    this.changes++
    owned.instance
      .close()
      .catch((reason) => this.#options.settings.log.warn({ err: reason }, 'an instance could not be closed'))
  }
}

/** Whether an instance is replaced after its last call. */
export function isWorn(
  { isolation, recycle, recycleMemory, recycleGrowth = 0 }: Isolation,
  { memoryBytes, calls, bytesAtOpen }: Omit<OwnedInstance, 'instance'>,
): boolean {
  return (
    isolation === 'fresh' ||
    (recycle !== undefined && calls >= recycle) ||
    (memoryBytes > recycleMemory && memoryBytes > bytesAtOpen + recycleGrowth)
  )
}
