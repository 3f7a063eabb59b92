import type { ThreadLabel } from '../../platform/stuck-threads.ts'
import type { PendingCall } from '../pending-call.ts'
import type { HeldTime } from './held-time.ts'
import type { RunningCall, ThreadStats } from './stamp.ts'

/** Where instances live that run calls one after the other, and what can be ended with the guest: a thread, or a process. */
export interface Runner {
  /** Calls that were handed over and not answered. */
  readonly load: number
  /** What its engine has told last. */
  readonly stats: ThreadStats
  /** Whether it has answered a call, or ended by another's fault. */
  readonly hasRun: boolean

  /** Whether it may be handed a call now. If not, its owner is told when it is free. */
  mayTake(): boolean

  /**
   * Hands a call over, which it may not see until it is woken.
   *
   * @returns false if there is no room now, or it ends.
   */
  give(call: PendingCall): boolean

  /** It looks at what it was given. @returns whether its answers are to be collected, until {@link Runner.rest}. */
  wake(): boolean

  /** Takes the answers that are there. @returns whether there were any. */
  collect(): boolean

  /** Nobody collects any more. */
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

  /** Takes the call that runs out of its hands, to be told something else than its answer. */
  drop(running: RunningCall): PendingCall | undefined

  /** Ends it, whatever it does. @returns false if it does not end, and is written off. */
  end(): Promise<boolean>

  /** {@link Runner.end}, but its owner is told at once, with the calls that it has. */
  abandon(): void

  /** Says why it is going to be ended. */
  fail(reason: Error): void
}

/** What a runner tells its owner. */
export interface RunnerOwner {
  /** Its first instance is open. */
  ready(runner: Runner): void
  /** It takes calls again. */
  free(): void
  /** A guest asks the host for something, and has no answer yet. */
  asking(): void
  /** A call has ended, well or badly; it has been told. @param ms - How long the guest ran. */
  answered(runner: Runner, ms: number): void
  /** It could not open another instance, and runs no more calls. */
  broken(runner: Runner, reason: Error): void
  /** It has ended, or is written off. @param unanswered - Its calls. @param reason - Why, if it was not told to. */
  ended(runner: Runner, unanswered: Unanswered, reason: Error): void
}

/** What becomes of the calls of a runner that ended. */
export interface Unanswered {
  /** Their guests never started. */
  readonly unbegun: readonly PendingCall[]
  /** Their guests started. */
  readonly lost: readonly PendingCall[]
}

/** What makes the runners of a route. */
export interface RunnerKind {
  readonly name: 'workers' | 'subprocess'
  /** What one of them is, for people. */
  readonly one: string
  readonly many: string
  /**
   * Whose threads they are: while too many of these cannot be ended, no other is started. Empty for what can always be
   * ended.
   */
  readonly owner: ThreadLabel
  /** Starts one. @throws what the system says, if there can be no more. */
  start(owner: RunnerOwner): Runner
}
