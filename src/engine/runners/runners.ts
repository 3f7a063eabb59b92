import {
  ClientGoneError,
  DeadlineError,
  EngineClosedError,
  ShuttingDownError,
  WorkerLostError,
} from '../../errors/errors.ts'
import type { EngineStats } from '../../observe/engine-stats.ts'
import type { Caller } from '../../observe/observe.ts'
import type { ByteSource } from '../../platform/chunks.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import { type Endable, type Engine, PendingCall, trackEndable } from '../engine.ts'
import { type QueueLimits, WaitingCalls } from '../queue.ts'
import {
  BlockedTimeMeter,
  type Runner,
  type RunnerKind,
  type RunningCall,
  type UnansweredCalls,
} from './runner.ts'
import { RunnerPool, type RunnerPoolOptions } from './runner-pool.ts'

export interface RunnersOptions extends QueueLimits, RunnerPoolOptions {
  /** Maximum guest time of a call. */
  readonly timeoutMs: number
  /** Whether a call may be run again after its runner was lost. */
  readonly idempotent: boolean
}

/** Instances in runners of one kind. Queue, deadline and replacement are the same for all kinds. */
export function openRunners(kind: RunnerKind, options: RunnersOptions): Engine {
  return new RunnersEngine(kind, options)
}

/** How often threads with calls are checked. */
const CHECK_MS = 4

/** When a guest has run this long, the calls assigned after it are taken back. */
const TAKE_BACK_MS = 4

/**
 * A guest whose client has disconnected is ended with its thread when it has run this long. To let a shorter call end costs less
 * than a new thread, and clients cannot make the server replace threads all the time. One that can be interrupted is ended at
 * once.
 */
const LEAVE_MS = 50

/** Maximum number of calls assigned to a thread that runs them one after another. */
const MAX_AHEAD = 64

/** Guest time of the calls assigned in advance, in ms: enough to hide the latency between threads. */
const AHEAD_MS = 1

/** Weight of the newest call in the mean guest time. */
const NEWEST_CALL_WEIGHT = 1 / 16

/** Limit for one call, as a multiple of the mean: a single slow call says little about the next. */
const MAX_SAMPLE_FACTOR = 16

/** Time that a thread may neither run a guest nor answer before its calls go to other threads, in ms. */
const UNRESPONSIVE_MS = 100

/** The time after which it is terminated, if the calls of many suspended guests are lost with it. */
const MANY_UNRESPONSIVE_MS = 5_000

/** Shorter blocks of the event loop are charged to guests: this fraction of their deadline, up to this maximum. */
const HELD_SHARE = 1 / 10
const MAX_HELD_MS = 100

/**
 * Blocked time that a call is not charged with, as a multiple of its deadline, and of one block whatever its length: clients
 * can block the event loop again and again, but not while the process is stopped.
 */
const MAX_CREDIT_FACTOR = 10

class RunnersEngine implements Engine, Endable {
  readonly name: RunnerKind['name']
  readonly ready: Promise<void>
  readonly #options: RunnersOptions
  readonly #pool: RunnerPool
  readonly #waiting: WaitingCalls
  /** Runners that got calls in this turn of the event loop. */
  readonly #withNewCalls = new Set<Runner>()
  /** Runners that are polled for answers at each turn: that costs less than a message. */
  readonly #watched = new Set<Runner>()
  #isTurnPlanned = false
  readonly #blockedTime: BlockedTimeMeter
  /** Runners with slow guests: they get no calls in advance. */
  readonly #slow = new WeakSet<Runner>()
  /** Number of calls that a runner has at a time, all of them started; 0: it runs one after another. */
  readonly #concurrent: number
  #guestMs = AHEAD_MS
  #timer: NodeJS.Timeout | undefined
  #timeouts = 0
  #isClosed = false
  #isEnded = false
  readonly #untrack = trackEndable(this)
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(kind: RunnerKind, options: RunnersOptions) {
    this.name = kind.name
    this.#options = options
    this.#concurrent = kind.concurrent > 1 ? kind.concurrent : 0
    this.#blockedTime = new BlockedTimeMeter(
      Math.max(2 * CHECK_MS, Math.min(MAX_HELD_MS, options.timeoutMs * HELD_SHARE)),
    )
    this.#waiting = new WaitingCalls(options)
    this.#pool = new RunnerPool(kind, options, {
      available: () => this.#feed(),
      asking: () => this.#noticeBlocked(),
      answered: (thread, ms) => this.#answered(thread, ms),
      late: () => this.#timeouts++,
      left: (unanswered, reason) => this.#left(unanswered, reason),
      refused: (error) => this.#waiting.rejectAll(error),
    })
    this.ready = this.#pool.opened
    this.ready.catch(() => undefined) // the rejection also reaches `ready` and the callers
  }

  endCalls(): void {
    this.#isClosed = true
    this.#isEnded = true
    this.#waiting.rejectAll(new EngineClosedError())
    this.#pool.abandon()
  }

  get trouble(): string | undefined {
    return this.#pool.trouble
  }

  get stats(): EngineStats {
    const running = this.#pool.threads.reduce((sum, { load }) => sum + load, 0)
    return { ...this.#pool.stats, waiting: this.#waiting.length, running, timeouts: this.#timeouts }
  }

  call(exportName: string, input: ByteSource, caller: Caller): PendingCall {
    if (this.#isClosed) throw new EngineClosedError()
    const { refusal } = this.#pool
    caller.observer?.queued()
    if (refusal) throw refusal
    const call = new PendingCall(exportName, input, caller)
    this.#waiting.push(call, { expectedMs: this.#expectedMs() })
    if (this.#waiting.length === 1) this.#feed()
    this.#watch()
    return call
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#isClosed = true
    if (!this.#isIdle) {
      this.#watch() // a runner may be ending that has no calls
      await new Promise<void>((resolve) => (this.#onIdle = resolve))
    }
    clearTimeout(this.#timer)
    await this.#pool.close()
    this.#untrack()
  }

  /** Whether no call is unanswered: a runner that is being terminated gives its other calls back when it has ended. */
  get #isIdle(): boolean {
    const { threads, isEnding } = this.#pool
    return this.#waiting.length === 0 && !isEnding && threads.every(({ load }) => load === 0)
  }

  /** The expected waiting time of a new call. */
  #expectedMs(): number {
    return (this.#waiting.length * this.#guestMs) / Math.max(this.#pool.threads.length, 1)
  }

  /** Assigns calls to threads that have little to do. */
  #feed(): void {
    for (let call = this.#waiting.first; call; call = this.#waiting.first) {
      if (call.caller.isGone) {
        this.#waiting.shift()?.reject(new ClientGoneError())
        continue
      }
      const thread = this.#pool.isPaused ? undefined : this.#chooseThread()
      if (!thread?.give(call)) return
      this.#waiting.shift()
      this.#withNewCalls.add(thread)
      this.#planTurn()
    }
  }

  #planTurn(): void {
    if (this.#isTurnPlanned) return
    this.#isTurnPlanned = true
    setImmediate(() => this.#turn())
  }

  /** Wakes all runners that got calls. Polling stops for runners that have answered nothing since the last turn. */
  #turn(): void {
    this.#isTurnPlanned = false
    for (const thread of this.#watched) {
      if (thread.collect()) continue
      this.#watched.delete(thread)
      thread.stopPolling()
    }
    for (const thread of this.#withNewCalls) {
      if (thread.wake()) this.#watched.add(thread)
    }
    this.#withNewCalls.clear()
    if (this.#watched.size > 0) this.#planTurn()
  }

  /** The runner with the least work; undefined if all have enough. */
  #chooseThread(): Runner | undefined {
    const concurrent = this.#concurrent
    const most = concurrent || Math.max(1, Math.min(MAX_AHEAD, Math.floor(AHEAD_MS / this.#guestMs)))
    let chosen: Runner | undefined
    for (const thread of this.#pool.threads) {
      const room = concurrent || !this.#slow.has(thread) ? most : 1
      if (thread.load < room && thread.load < (chosen?.load ?? room) && thread.mayTake()) chosen = thread
    }
    return chosen
  }

  #answered(thread: Runner, ms: number): void {
    this.#guestMs +=
      (Math.min(ms, MAX_SAMPLE_FACTOR * this.#guestMs + 0.1) - this.#guestMs) * NEWEST_CALL_WEIGHT
    this.#slow.delete(thread)
    this.#feed()
    this.#notifyIfIdle()
  }

  #notifyIfIdle(): void {
    if (this.#onIdle && this.#isIdle) this.#onIdle()
  }

  #watch(): void {
    if (this.#timer) return
    this.#blockedTime.begin()
    this.#timer = setTimeout(() => this.#look(), CHECK_MS)
  }

  /** Called before delayed work continues. */
  #noticeBlocked(): void {
    const blocked = this.#blockedTime.look()
    if (!blocked) return
    const maxMs = MAX_CREDIT_FACTOR * this.#options.timeoutMs
    for (const thread of this.#pool.threads) thread.creditBlockedTime(blocked, maxMs)
  }

  /** Checks deadlines of guests and of queued calls. */
  #look(): void {
    this.#timer = undefined
    this.#noticeBlocked()
    for (const thread of this.#pool.threads) this.#lookAt(thread)
    this.#waiting.dropLate(performance.now())
    this.#feed() // assigns calls that were taken back, or did not fit into a ring before
    this.#notifyIfIdle()
    if (!this.#isIdle) this.#watch()
  }

  #lookAt(thread: Runner): void {
    const silentMs = thread.load > 0 ? thread.silentMs() : 0
    if (silentMs > 0) thread.dropGone()
    if (silentMs >= UNRESPONSIVE_MS) this.#lookAtSilent(thread)
    const running = thread.running()
    const ms = running ? monotonicMs() - running.since : 0
    if (!running || running.beforeMs + ms < TAKE_BACK_MS) return
    if (ms >= TAKE_BACK_MS) {
      this.#slow.add(thread)
      this.#waiting.unshift(thread.takeBack())
    }
    // From here on it starts nothing else: only this call can be lost, and those that are suspended.
    const isLate = thread.usedMs(running) >= this.#options.timeoutMs
    const mayLeave = ms >= LEAVE_MS || thread.mayInterrupt
    if (!isLate && !(mayLeave && thread.isAbandoned(running))) return
    const reasonFor = (call: PendingCall) =>
      isLate ? new DeadlineError(call.exportName, this.#options.timeoutMs) : new ClientGoneError()
    if (isSameRun(thread.running(), running) && !thread.interrupt(running, reasonFor))
      this.#kill(thread, running, isLate)
  }

  /** A timer of a host function may block it, or the start of a replacement instance. */
  #lookAtSilent(thread: Runner): void {
    thread.collect()
    const silentMs = thread.silentMs()
    if (silentMs < UNRESPONSIVE_MS) return
    this.#slow.add(thread)
    this.#waiting.unshift(thread.takeBack())
    const limitMs = this.#concurrent ? MANY_UNRESPONSIVE_MS : UNRESPONSIVE_MS
    if (silentMs >= Math.max(this.#options.timeoutMs, limitMs)) this.#pool.retire(thread)
  }

  #kill(thread: Runner, running: RunningCall, isLate: boolean): void {
    const { timeoutMs } = this.#options
    if (isLate) this.#timeouts++
    this.#pool.retire(thread) // first: its answers free space, and it must get no calls
    const call = thread.drop(running)
    call?.caller.observer?.ended(running.beforeMs + monotonicMs() - running.since)
    call?.reject(isLate ? new DeadlineError(call.exportName, timeoutMs) : new ClientGoneError())
  }

  /** Calls that its guest had not started go to another thread. */
  #left({ unbegun, lost }: UnansweredCalls, reason: Error): void {
    if (this.#isEnded) {
      for (const call of unbegun) call.reject(new EngineClosedError())
      for (const call of lost) call.reject(new ShuttingDownError(call.exportName))
      this.#notifyIfIdle()
      return
    }
    const again = lost.filter((call) => this.#options.idempotent && call.tries++ === 0)
    for (const call of lost) {
      if (again.includes(call)) continue
      call.reject(new WorkerLostError(call.exportName, { cause: reason }))
    }
    this.#waiting.unshift([...again, ...unbegun])
    this.#feed()
    this.#notifyIfIdle()
  }
}

/** Whether a guest has not been suspended between two looks. */
function isSameRun(now: RunningCall | undefined, before: RunningCall): boolean {
  return now?.call === before.call && now.since === before.since
}
