import type { ThreadLabel } from '../../platform/stuck-threads.ts'
import type { PendingCall } from '../engine.ts'
import { monotonicMs, type RunningCall, type ThreadStats } from './stamp.ts'

/** A thread or a process that runs calls one after the other, and can be ended together with its guest. */
export interface Runner {
  /** Number of calls that were handed over and not answered. */
  readonly load: number
  /** The last statistics of its engine. */
  readonly stats: ThreadStats
  /** Whether it has answered a call, or ended by another's fault. */
  readonly hasRun: boolean

  /** Whether it can take a call now. If not, `RunnerOwner.free` is called later. */
  mayTake(): boolean

  /**
   * Hands a call over, which it may not see until it is woken.
   *
   * @returns false if there is no room now, or it ends.
   */
  give(call: PendingCall): boolean

  /** Wakes it to look at its calls. @returns whether its answers are to be collected, until {@link Runner.rest}. */
  wake(): boolean

  /** Takes the answers that are there. @returns whether there were any. */
  collect(): boolean

  /** Collecting has stopped. */
  rest(): void

  /** How long it has been awake, on the main thread's clock, and has neither run a guest nor answered. */
  silentMs(): number

  /** The call that its guest runs at this moment. */
  running(): RunningCall | undefined

  /** How much of its time the guest of a call has used, in ms. */
  usedMs(running: RunningCall): number

  /** Does not charge its guest for the time in which the event loop was held, as far as the guest did not use it. */
  excuse(held: HeldTime): void

  /** Takes back what its guest has not begun, as far as that can be known. @returns the oldest first. */
  takeBack(): PendingCall[]

  /** Lets those go whose clients went away before their guests began. */
  dropGone(): void

  /** Releases the running call, which its owner settles instead. The answer is ignored. */
  drop(running: RunningCall): PendingCall | undefined

  /** Ends it, whatever it does. @returns false if it does not end, and is written off. */
  end(): Promise<boolean>

  /** As {@link Runner.end}, but `RunnerOwner.ended` is called at once, with the calls that it has. */
  abandon(): void

  /** Sets the reason why it will be ended. */
  fail(reason: Error): void
}

/** The events of a runner, for its owner. */
export interface RunnerOwner {
  /** Its first instance is open. */
  ready(runner: Runner): void
  /** It takes calls again. */
  free(): void
  /** A guest asks the host for something, and has no answer yet. */
  asking(): void
  /** A call was settled. @param ms - How long the guest ran. */
  answered(runner: Runner, ms: number): void
  /** It could not open another instance, and runs no more calls. */
  broken(runner: Runner, reason: Error): void
  /** It has ended, or is written off. @param unanswered - Its calls. @param reason - Why, if `end` was not called. */
  ended(runner: Runner, unanswered: UnansweredCalls, reason: Error): void
}

/** The unanswered calls of a runner that ended. */
export interface UnansweredCalls {
  /** Their guests never started. */
  readonly unbegun: readonly PendingCall[]
  /** Their guests started. */
  readonly lost: readonly PendingCall[]
}

/** The factory of the runners of a route. */
export interface RunnerKind {
  readonly name: 'workers' | 'subprocess'
  /** The noun for one of them, for messages. */
  readonly one: string
  readonly many: string
  /**
   * The owner of the threads: while too many of them cannot be ended, no other is started. Empty for runners that can always
   * be ended.
   */
  readonly owner: ThreadLabel
  /** Starts one. @throws the error of the system, if there can be no more. */
  start(owner: RunnerOwner): Runner
}

/** A time in which the event loop was blocked: nothing was answered, and nothing could be ended. */
export interface HeldTime {
  /** On {@link monotonicMs}'s clock. */
  readonly from: number
  readonly to: number
  /** How much of the processor the process used meanwhile, all its threads together. */
  readonly cpuMs: number
}

/** The clocks that are used; replaced by tests. */
interface Clocks {
  nowMs(): number
  /** Of the process. */
  cpuMs(): number
}

const CLOCKS: Clocks = {
  nowMs: monotonicMs,
  cpuMs() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
}

/** Measures for how long the event loop was blocked. `look` must be called often. */
export class HeldWatch {
  readonly #leastMs: number
  readonly #clocks: Clocks
  #from = 0
  #cpuMs = 0

  /** @param leastMs - Shorter times are the usual work of an event loop, and not reported. */
  constructor(leastMs: number, clocks = CLOCKS) {
    this.#leastMs = leastMs
    this.#clocks = clocks
  }

  /** Forgets what was before. */
  begin(): void {
    this.#from = this.#clocks.nowMs()
    this.#cpuMs = this.#clocks.cpuMs()
  }

  /** @returns how it was held since the last look. */
  look(): HeldTime | undefined {
    const [from, cpuMs] = [this.#from, this.#cpuMs]
    if (this.#clocks.nowMs() - from < this.#leastMs) return undefined
    this.begin()
    return { from, to: this.#from, cpuMs: this.#cpuMs - cpuMs }
  }
}

/**
 * How much of a held time a guest did not use: all of it while it waited for the host, and else what the process cannot
 * have spent on it, as when it was stopped.
 *
 * @param waitsSince - Since when the guest waits for the host, if it does.
 */
export function unusedMs(
  { from, to, cpuMs }: HeldTime,
  { since }: RunningCall,
  waitsSince: number | undefined,
): number {
  const waitedMs = waitsSince === undefined ? 0 : to - Math.max(from, waitsSince)
  const idleMs = to - Math.max(from, since) - cpuMs
  return Math.max(waitedMs, idleMs, 0)
}
