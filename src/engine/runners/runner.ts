import { GuestTrapError, InstanceStartError } from '../../errors/errors.ts'
import type { EngineStats } from '../../observe/engine-stats.ts'
import { monotonicMs } from '../../platform/monotonic.ts'
import type { ThreadLabel } from '../../platform/stuck-threads.ts'
import type { PendingCall } from '../engine.ts'

/** A running call. */
export interface RunningCall {
  readonly call: number
  /** The start of its current turn, on {@link monotonicMs}'s clock. A call that is never suspended has one turn. */
  readonly since: number
  /** Time that it ran in earlier turns, in ms. */
  readonly beforeMs: number
}

/** Time in which an interrupted guest has to end before its runner is terminated, in ms: a host function may run. */
export const INTERRUPTION_MS = 100

/** Why the guest of a call is interrupted, and since when. */
export interface Interruption {
  readonly reason: Error
  /** On the clock of `performance.now`. */
  readonly since: number
}

/** The error of a call whose guest failed: an interruption is a trap, also in the start of a new instance within the call. */
export function failureOf(failure: Error, interruption: Interruption | undefined): Error {
  const isInterrupted = failure instanceof GuestTrapError || failure instanceof InstanceStartError
  return interruption && isInterrupted ? interruption.reason : failure
}

/** Statistics that a runner reports. */
export type RunnerStats = Pick<
  EngineStats,
  'guestBytes' | 'kernelBytes' | 'recycled' | 'restarted' | 'droppedLines' | 'checks'
>

/** A thread or process that runs calls, and can be terminated together with its guests. */
export interface Runner {
  /** Number of assigned calls without an answer. */
  readonly load: number
  /** The last statistics of its engine. */
  readonly stats: RunnerStats
  /** Whether it has answered a call, or ended because of another tenant. */
  readonly hasRun: boolean

  /** Whether it can take a call now. If not, `RunnerOwner.free` is called later. */
  mayTake(): boolean

  /**
   * Assigns a call, which it may not see before it is woken.
   *
   * @returns false if there is no space now, or it is ending.
   */
  give(call: PendingCall): boolean

  /** Wakes it to process its calls. @returns whether to poll for its answers, until {@link Runner.stopPolling}. */
  wake(): boolean

  /** Reads the available answers. @returns whether there were any. */
  collect(): boolean

  /** Polling has stopped. */
  stopPolling(): void

  /** Time that it has been awake without running a guest or answering, on the main thread's clock. */
  silentMs(): number

  /** The call that its guest is running; undefined if all its guests are suspended. */
  running(): RunningCall | undefined

  /** The guest time of a call so far, in ms. */
  usedMs(running: RunningCall): number

  /**
   * Does not charge its guest for time in which the event loop was blocked, as far as the guest did not use it.
   *
   * @param maxMs - A call that has been given back so much is charged with the rest.
   */
  creditBlockedTime(blocked: BlockedTime, maxMs: number): void

  /** Takes back calls that its guest has not started, as far as known. @returns them, the oldest first. */
  takeBack(): PendingCall[]

  /** Drops calls whose clients disconnected before their guests started. */
  dropGone(): void

  /** Whether the client of the running call has disconnected, and the call is to be ended then. */
  isAbandoned(running: RunningCall): boolean

  /** Whether the running guest ends when it is asked to: not while it waits for the host, which does not look. */
  readonly mayInterrupt: boolean

  /**
   * Asks the guest of the running call to end: the call then fails with this reason.
   *
   * @returns false if the guest cannot be asked, or does not end.
   */
  interrupt(running: RunningCall, reasonFor: (call: PendingCall) => Error): boolean

  /** Releases the running call, which its owner settles instead. The answer is ignored. */
  drop(running: RunningCall): PendingCall | undefined

  /** Terminates it, whatever it does. @returns false if it does not end and is given up. */
  end(): Promise<boolean>

  /** Ends like {@link Runner.end}, but calls `RunnerOwner.ended` immediately, with the runner's calls. */
  abandon(): void

  /** Sets the reason of its coming end. */
  fail(reason: Error): void
}

/** The events of a runner, for its owner. */
export interface RunnerOwner {
  /** The first instance of the runner is open. */
  ready(runner: Runner): void
  /** The runner accepts calls again. */
  free(): void
  /** A guest waits for an answer of the host. */
  asking(): void
  /** A call was settled. @param ms - Guest time. */
  answered(runner: Runner, ms: number): void
  /** A guest was ended at its deadline; its runner continues. */
  late(): void
  /** The runner could not open another instance, and runs no more calls. */
  broken(runner: Runner, reason: Error): void
  /** The runner has ended or is given up. @param unanswered - Its calls. @param reason - The reason, if `end` was not called. */
  ended(runner: Runner, unanswered: UnansweredCalls, reason: Error): void
}

/** The unanswered calls of a runner that ended. */
export interface UnansweredCalls {
  /** Calls whose guests never started. */
  readonly unbegun: readonly PendingCall[]
  /** Calls whose guests started. */
  readonly lost: readonly PendingCall[]
}

/** The factory of a route's runners. */
export interface RunnerKind {
  readonly name: 'workers' | 'subprocess'
  /** The noun for one of them, for messages. */
  readonly one: string
  readonly many: string
  /**
   * The owner of the threads: no new ones start while too many cannot be terminated. Empty for runners that can always be
   * terminated.
   */
  readonly owner: ThreadLabel
  /** Number of calls that one of them runs at a time, while their guests are suspended. 1: it runs them in order. */
  readonly concurrent: number
  /** Starts one. @throws the error of the system, if its limit is reached. */
  start(owner: RunnerOwner): Runner
  /** Gives up what the runners of the route share. Called when all of them have ended. */
  close?(): void
}

/** A time in which the event loop was blocked: nothing was answered, and nothing could be terminated. */
export interface BlockedTime {
  /** When it began, on {@link monotonicMs}'s clock. */
  readonly from: number
  readonly to: number
  /** CPU time of all threads of the process meanwhile. */
  readonly cpuMs: number
}

/** The clocks that are used; replaced by tests. */
interface Clocks {
  nowMs(): number
  /** CPU time of the process. */
  cpuMs(): number
}

const CLOCKS: Clocks = {
  nowMs: monotonicMs,
  cpuMs() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
}

/** Measures how long the event loop was blocked. `look` must be called often. */
export class BlockedTimeMeter {
  readonly #leastMs: number
  readonly #clocks: Clocks
  #from = 0
  #cpuMs = 0

  /** @param leastMs - Shorter times are normal for an event loop and not reported. */
  constructor(leastMs: number, clocks = CLOCKS) {
    this.#leastMs = leastMs
    this.#clocks = clocks
  }

  /** Restarts the measurement. */
  begin(): void {
    this.#from = this.#clocks.nowMs()
    this.#cpuMs = this.#clocks.cpuMs()
  }

  /** @returns the time blocked since the last look. */
  look(): BlockedTime | undefined {
    const [from, cpuMs] = [this.#from, this.#cpuMs]
    if (this.#clocks.nowMs() - from < this.#leastMs) return undefined
    this.begin()
    return { from, to: this.#from, cpuMs: this.#cpuMs - cpuMs }
  }
}

/**
 * The part of a blocked time that a guest did not use: all of it while it waited for the host; otherwise the time in which
 * the process used no CPU, as when it was stopped.
 *
 * @param waitsSince - Since when the guest waits for the host, if it does.
 */
export function unusedMs(
  { from, to, cpuMs }: BlockedTime,
  { since }: Pick<RunningCall, 'call' | 'since'>,
  waitsSince: number | undefined,
): number {
  const waitedMs = waitsSince === undefined ? 0 : to - Math.max(from, waitsSince)
  const idleMs = to - Math.max(from, since) - cpuMs
  return Math.max(waitedMs, idleMs, 0)
}

/**
 * The part of a pause that is not charged to a guest. What the main thread does for it is: a guest that only asks would
 * otherwise never meet its deadline.
 */
export function creditedMs(pauseMs: number): number {
  return Math.max(pauseMs - ASKING_MS, 0)
}

/** About the time that an answer takes where nothing is waited for. */
const ASKING_MS = 0.02
