import { setTimeout as sleep } from 'node:timers/promises'
import { ClientGoneError, EngineClosedError, InstancesFullError } from '../errors/errors.ts'
import { addStats, type EngineStats, NO_STATS, withoutPresent } from '../observe/engine-stats.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'
import { backoffMs } from '../platform/event-loop.ts'
import { isOutOfAddresses } from '../platform/system-errors.ts'
import { type Engine, PendingCall, settleWith } from './engine.ts'
import { type QueueLimits, WaitingCalls } from './queue.ts'

/** An engine that is opened by its first call, and may be closed while no call runs. The next call opens it again. */
export function openLazy(options: LazyOptions): Engine {
  return new LazyEngine(options)
}

export interface LazyOptions extends QueueLimits {
  readonly name: Engine['name']
  /** Opens the engine. Called again after it was closed, or has failed. */
  open(): Promise<Engine>
  /** Called when it could not be opened: calls fail with this error for a while. */
  failed?(error: unknown): void
  /** The number of instances that it opens. */
  readonly instances: number
  /** Whether it may be closed when it is idle, and not only to make room for others: not if that loses the memory of its instances. */
  readonly maySleep: boolean
  /** The lazy engines that are open. */
  readonly awake: AwakeEngines
}

/** How long calls fail with the same error after a failed opening, in ms. It doubles with each failure in a row. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 30_000

/** How often an engine that waits for room looks for another one that may be closed. */
const ROOM_LOOK_MS = 10

class LazyEngine implements Engine, Sleeper {
  readonly name: Engine['name']
  readonly ready = Promise.resolve()
  readonly instances: number
  lastUse = 0
  readonly #options: LazyOptions
  #engine: Engine | undefined
  #opening: Promise<void> | undefined
  readonly #waiting: WaitingCalls
  /** The counters of the engines that were closed. */
  #past = NO_STATS
  readonly #closing = new Set<Promise<void>>()
  #failure: { readonly error: unknown; readonly until: number; readonly row: number } | undefined
  #isClosed = false

  constructor(options: LazyOptions) {
    this.name = options.name
    this.instances = options.instances
    this.#options = options
    this.#waiting = new WaitingCalls(options)
  }

  get trouble(): string | undefined {
    if (this.#engine) return this.#engine.trouble
    const error = this.#failure?.error
    return error instanceof Error ? error.message : undefined
  }

  get stats(): EngineStats {
    const stats = addStats(this.#past, this.#engine?.stats ?? NO_STATS)
    return { ...stats, waiting: stats.waiting + this.#waiting.length }
  }

  call(exportName: string, input: ByteSource, caller: Caller): ReturnType<Engine['call']> {
    if (this.#isClosed) throw new EngineClosedError()
    this.lastUse = this.#options.awake.nextUse()
    if (this.#engine) return this.#engine.call(exportName, input, caller)
    if (this.#failure && performance.now() < this.#failure.until) throw this.#failure.error
    const call = new PendingCall(exportName, input, caller)
    this.#waiting.push(call)
    this.#opening ??= this.#wake().finally(() => {
      this.#opening = undefined
    })
    return call
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#opening // its calls, which waited earlier, continue first
    void this.sleep()
    await Promise.all(this.#closing)
  }

  get keepsMemory(): boolean {
    return !this.#options.maySleep
  }

  get isIdle(): boolean {
    if (!this.#engine) return false
    const { waiting, running } = this.#engine.stats
    return waiting + running + this.#waiting.length === 0
  }

  waitsForRoom(maxInstances: number): boolean {
    this.#waiting.dropGone()
    this.#waiting.dropLate(performance.now(), () => new InstancesFullError(maxInstances))
    return this.#waiting.length > 0
  }

  sleep(): Promise<void> {
    const engine = this.#engine
    if (!engine) return Promise.resolve()
    this.#engine = undefined
    this.#options.awake.leave(this)
    const closing = engine.close().finally(() => {
      this.#past = addStats(this.#past, withoutPresent(engine.stats))
      this.#closing.delete(closing)
    })
    this.#closing.add(closing)
    return closing
  }

  /** Opens the engine for the calls that wait. */
  async #wake(): Promise<void> {
    try {
      const engine = await this.#open()
      for (let call = this.#waiting.shift(); call; call = this.#waiting.shift()) pass(call, engine)
    } catch (error) {
      this.#waiting.rejectAll(error)
    }
  }

  /** @throws {@link InstancesFullError}, and the error of the opening. */
  async #open(): Promise<Engine> {
    const { awake } = this.#options
    await awake.enter(this)
    const { limit } = awake
    try {
      const engine = await this.#options.open()
      try {
        await engine.ready
      } catch (error) {
        await engine.close()
        throw error
      }
      this.#engine = engine
      this.#failure = undefined
      return engine
    } catch (error) {
      awake.leave(this)
      if (isOutOfAddresses(error) && (await awake.lowerLimit(limit))) return this.#open()
      const row = (this.#failure?.row ?? 0) + 1
      const ms = backoffMs(row, RETRY_MS, MAX_RETRY_MS)
      this.#failure = { error, row, until: performance.now() + ms }
      this.#options.failed?.(error)
      throw error
    }
  }
}

function pass(call: PendingCall, engine: Engine): void {
  try {
    if (call.caller.isGone) throw new ClientGoneError()
    settleWith(call, engine.call(call.exportName, call.input, call.caller))
  } catch (error) {
    call.reject(error)
  }
}

/** A lazy engine, for the owner of all. */
interface Sleeper {
  readonly instances: number
  /** The number of its last use; higher is later. */
  readonly lastUse: number
  /** Whether closing it loses the memory of earlier calls. */
  readonly keepsMemory: boolean
  /** Whether it is open, and no call runs. */
  readonly isIdle: boolean
  /** Refuses the calls that have waited for too long. @returns whether others wait. */
  waitsForRoom(maxInstances: number): boolean
  /** Closes it. Its failure is reported by {@link Engine.close}. */
  sleep(): Promise<void>
}

/** The part of the instances that stays open when no addresses are left. */
const KEPT_PART = 15 / 16

/** How many times within `idleMs` unused engines are looked for. */
const LOOKS = 4

/** The lazy engines of an app that are open. Those without calls for some time are closed if that loses nothing, and the least recently used ones when there are too many. */
export class AwakeEngines {
  readonly #limits: AwakeLimits
  #limit: number
  readonly #engines = new Set<Sleeper>()
  /** Ends when the engines that wait have room. */
  #entering = Promise.resolve()
  #instances = 0
  #uses = 0
  /** The numbers of the last uses at the last looks, the oldest first. */
  #looks: number[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(limits: AwakeLimits) {
    this.#limits = limits
    this.#limit = limits.maxInstances ?? Number.POSITIVE_INFINITY
  }

  /** The number of instances that may be open. */
  get limit(): number {
    return this.#limit
  }

  /** Numbers a call: a counter costs less than a clock. */
  nextUse(): number {
    return ++this.#uses
  }

  /**
   * Makes room for an engine that opens: waits, in the order of the calls, while all others are in use.
   *
   * @throws {@link InstancesFullError} if no call waits for it any more.
   */
  async enter(engine: Sleeper): Promise<void> {
    const before = this.#entering
    const entered = before.then(() => this.#waitForRoom(engine))
    this.#entering = entered.catch(() => undefined)
    await entered
  }

  async #waitForRoom(engine: Sleeper): Promise<void> {
    while (!this.#makeRoom(engine)) {
      if (!engine.waitsForRoom(this.#limit)) throw new InstancesFullError(this.#limit)
      await sleep(ROOM_LOOK_MS)
    }
    this.#engines.add(engine)
    this.#instances += engine.instances
    this.#watch()
  }

  leave(engine: Sleeper): void {
    if (!this.#engines.delete(engine)) return
    this.#instances -= engine.instances
    if (this.#engines.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#looks = []
  }

  /**
   * Closes some of the least recently used engines, and opens no more than are left: there are no addresses for the memory of another
   * one. V8 reserves 10 GiB for each, mostly at random places, so that the addresses of a process are used up early.
   *
   * @param from - The limit when it was noticed: it is lowered once for all engines that notice it together.
   * @returns whether the engine may try again.
   */
  async lowerLimit(from: number): Promise<boolean> {
    if (this.#limit < from) return true
    const most = Math.floor(this.#instances * KEPT_PART)
    const closed: Promise<void>[] = []
    for (let oldest = this.#longestUnused(); oldest && this.#instances > most; oldest = this.#longestUnused())
      closed.push(oldest.sleep())
    if (closed.length === 0) return false
    this.#limit = Math.max(1, this.#instances)
    this.#limits.onLowered?.(this.#limit)
    await Promise.allSettled(closed)
    return true
  }

  /** @returns whether there is room. */
  #makeRoom({ instances }: Sleeper): boolean {
    while (this.#instances > 0 && this.#instances + instances > this.#limit) {
      const oldest = this.#longestUnused()
      if (!oldest) return false
      void oldest.sleep()
    }
    return true
  }

  #longestUnused(): Sleeper | undefined {
    let oldest: Sleeper | undefined
    for (const engine of this.#engines)
      if (engine.lastUse < (oldest?.lastUse ?? Number.POSITIVE_INFINITY) && engine.isIdle) oldest = engine
    return oldest
  }

  #watch(): void {
    const { idleMs } = this.#limits
    if (this.#timer || idleMs === 0) return
    this.#timer = setInterval(() => this.#look(), Math.ceil(idleMs / LOOKS)).unref()
  }

  #look(): void {
    this.#looks.push(this.#uses)
    if (this.#looks.length <= LOOKS) return
    const before = this.#looks.shift() ?? 0
    for (const engine of this.#engines)
      if (engine.lastUse <= before && !engine.keepsMemory && engine.isIdle) void engine.sleep()
  }
}

export interface AwakeLimits {
  /** Maximum number of open instances. Default: no limit. */
  readonly maxInstances?: number
  /** Time without calls after which an engine is closed, in ms; 0: never. */
  readonly idleMs: number
  /** Called when no addresses were left, with the number of instances that may be open from now on. */
  onLowered?(maxInstances: number): void
}
