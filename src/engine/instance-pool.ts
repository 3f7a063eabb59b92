import { BodyTooLargeError, EngineClosedError, GuestError } from '../errors/errors.ts'
import { LineRate } from '../observe/log/guest-log.ts'
import { type EngineStats, NO_STATS } from '../observe/metrics.ts'
import type { Caller } from '../observe/observe.ts'
import { thenMaybe } from '../platform/maybe-promise.ts'
import type { CopiedBytes } from '../platform/pieces.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { Instance, InstanceSettings, Runtime } from '../runtime/runtime.ts'
import type { Isolation } from './engine.ts'
import { isWorn } from './inline.ts'
import type { StallWatch } from './watchdog.ts'

/** Instances for calls whose guests are suspended while they wait: each call has one to itself. The user limits their number. */
export interface GuestPool {
  /** Settles when the first instance is open or has failed to open. */
  readonly ready: Promise<void>
  /** Computed on each read. */
  readonly stats: EngineStats
  /** Incremented when stats change other than those of running calls. */
  readonly changes: number

  /** Begins a call at once. @throws as `Engine.call` does, if an instance cannot be opened. */
  call(exportName: string, input: CopiedBytes, caller: Caller): Promise<Uint8Array>

  /** Completes the running calls and closes the instances. */
  close(): Promise<void>
}

export interface PoolOptions extends Isolation {
  readonly plugin: CompiledPlugin
  readonly runtime: Runtime
  readonly settings: InstanceSettings
  /** Detects a guest that blocks the event loop; closed with the pool. Default: no detection. */
  readonly watch?: StallWatch | undefined
}

/** Opens a pool with one instance. */
export function openInstancePool(options: PoolOptions): GuestPool {
  return new InstancePool(options)
}

/** Number of idle instances that are kept. As many as there are running ones are kept, too. */
const MIN_IDLE = 8

interface PooledInstance {
  readonly instance: Instance
  readonly bytesAtOpen: number
  /** The number of its calls. */
  calls: number
  memoryBytes: number
}

class InstancePool implements GuestPool {
  readonly ready: Promise<void>
  changes = 0
  readonly #options: PoolOptions
  /** Idle instances, last in first out. */
  readonly #idle: PooledInstance[] = []
  readonly #running = new Set<PooledInstance>()
  #recycled = 0
  #restarted = 0
  #droppedLines = 0
  #isClosed = false
  #onIdle: (() => void) | undefined

  constructor(options: PoolOptions) {
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
    this.ready = this.#openFirst()
    this.ready.catch(() => undefined) // the rejection also reaches `ready`
  }

  get stats(): EngineStats {
    const all = [...this.#idle, ...this.#running].map(({ instance }) => instance)
    const kernelBytes = all.reduce((sum, instance) => sum + instance.kernelBytes, 0)
    return {
      ...NO_STATS,
      running: this.#running.size,
      instances: all.length,
      guestBytes: all.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0) - kernelBytes,
      kernelBytes,
      recycled: this.#recycled,
      restarted: this.#restarted,
      droppedLines: this.#droppedLines,
    }
  }

  async call(exportName: string, input: CopiedBytes, caller: Caller): Promise<Uint8Array> {
    if (this.#isClosed) throw new EngineClosedError()
    const opened = this.#idle.pop() ?? this.#open()
    const pooled = opened instanceof Promise ? await opened : opened
    if (this.#isClosed) {
      await pooled.instance.close()
      throw new EngineClosedError()
    }
    this.#running.add(pooled)
    try {
      const bytes = await this.#begin(pooled, exportName, input, caller)
      this.#ended(pooled, caller)
      return bytes
    } catch (error) {
      // An instance survives an error that the guest set. After a trap (the error has a cause) it is never used again.
      const isUsable = (error instanceof GuestError && !error.cause) || error instanceof BodyTooLargeError
      if (isUsable) this.#ended(pooled, caller)
      else this.#failed(pooled, caller)
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.ready.catch(() => undefined)
    if (this.#running.size > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    try {
      await Promise.all(this.#idle.splice(0).map(({ instance }) => instance.close()))
    } finally {
      this.#options.watch?.close()
    }
  }

  /** Runs the guest until it is suspended for the first time. */
  #begin(
    pooled: PooledInstance,
    exportName: string,
    input: CopiedBytes,
    caller: Caller,
  ): Uint8Array | Promise<Uint8Array> {
    const { watch } = this.#options
    pooled.calls++
    caller.observer?.started()
    watch?.beginCall()
    try {
      const output = pooled.instance.call(exportName, input, caller)
      if (output instanceof Promise) watch?.watchTurn()
      return output
    } finally {
      watch?.end()
    }
  }

  #ended(pooled: PooledInstance, caller: Caller): void {
    const { memoryBytes } = pooled.instance
    if (memoryBytes !== pooled.memoryBytes) this.changes++
    pooled.memoryBytes = memoryBytes
    const { hasExited } = pooled.instance
    if (hasExited || isWorn(this.#options, memoryBytes, pooled.calls, pooled.bytesAtOpen)) {
      this.#recycled++
      this.#retire(pooled)
    } else this.#idle.push(pooled)
    this.#left(pooled, caller)
  }

  #failed(pooled: PooledInstance, caller: Caller): void {
    this.#restarted++
    this.#retire(pooled)
    this.#left(pooled, caller)
  }

  #left(pooled: PooledInstance, caller: Caller): void {
    this.#running.delete(pooled)
    caller.observer?.ended()
    while (this.#idle.length > Math.max(MIN_IDLE, this.#running.size)) {
      const oldest = this.#idle.shift()
      if (oldest) this.#retire(oldest)
    }
    if (this.#running.size === 0) this.#onIdle?.()
  }

  #retire({ instance }: PooledInstance): void {
    this.changes++
    instance
      .close()
      .catch((reason) => this.#options.settings.log.warn({ err: reason }, 'an instance did not close'))
  }

  async #openFirst(): Promise<void> {
    this.#idle.push(await this.#open())
  }

  #open(): PooledInstance | Promise<PooledInstance> {
    const { plugin, runtime, settings, watch } = this.#options
    watch?.beginStart()
    try {
      return thenMaybe(runtime.open(plugin, settings), (instance) => {
        const { memoryBytes } = instance
        this.changes++
        return { instance, bytesAtOpen: memoryBytes, calls: 0, memoryBytes }
      })
    } finally {
      watch?.end()
    }
  }
}
