import { availableParallelism } from 'node:os'
import { BreakerOpenError, InstanceStartError } from '../../errors/errors.ts'
import { errorFields, hasOwnCode } from '../../errors/failure.ts'
import type { EngineStats } from '../../observe/engine-stats.ts'
import type { Log } from '../../observe/log/guest-log.ts'
import { startClock } from '../../platform/event-loop.ts'
import { processThreads, type StartGate } from '../../platform/stuck-threads.ts'
import { explainLimit } from '../../platform/system-errors.ts'
import type { Runner, RunnerKind, RunnerOwner, RunnerStats, UnansweredCalls } from './runner.ts'

/** The reason of a start that took too long, with the limit. */
export function startedLate(startTimeoutMs: number): string {
  return `it had not started after ${startTimeoutMs} ms (--start-timeout-ms)`
}

/** Number of consecutive failed starts after which calls of the route are refused immediately. */
const BREAKER_STARTS = 5

export interface RunnerPoolOptions {
  /** The plug-in of the instances. */
  readonly plugin: { readonly name: string }
  readonly log: Log
  /** Number of runners that run calls. */
  readonly workers: number
  /** Number of spare runners, ready to replace one that ended. */
  readonly spareWorkers: number
  /** Time limit for the start of a runner and its instance, counted from its turn. */
  readonly startTimeoutMs: number
  /** Schedules starts. Default: the queue of the process. */
  readonly starts?: StartQueue | undefined
  /** Delay after a failed start. It doubles with each further failure in a row, up to 30 times. */
  readonly backoffMs: number
}

/** The owner of the pool, which uses its runners. */
interface RunnerPoolOwner {
  /** More runners can take calls. */
  available(): void
  /** A guest waits for an answer of the host. */
  asking(): void
  /** @param ms - Guest time. */
  answered(thread: Runner, ms: number): void
  /** A suspended guest was ended at its deadline. */
  late(): void
  /** A runner has ended. */
  left(unanswered: UnansweredCalls, reason: Error): void
  /** No runner can be started. */
  refused(error: Error): void
}

type RunnerPoolStats = Omit<EngineStats, 'waiting' | 'running' | 'timeouts'>

/** Called when a thread has started or failed to. */
interface StartHandle {
  stopClock(): void
  leaveQueue(): void
}

/** Keeps the configured number of runners of a route ready: it replaces those that end. */
export class RunnerPool implements RunnerOwner {
  /** Settles when all active runners are ready, or the first start has failed. */
  readonly opened: Promise<void>
  readonly #options: Omit<RunnerPoolOptions, 'starts'>
  readonly #kind: RunnerKind
  readonly #starts: StartQueue
  readonly #owner: RunnerPoolOwner
  readonly #starting = new Map<Runner, StartHandle>()
  /** Queued starts, with the functions that withdraw them. */
  readonly #queued = new Map<QueuedStart, () => void>()
  /** The first ones run calls, the others are spare. */
  #ready: readonly Runner[] = []
  #threads: readonly Runner[] = []
  readonly #ending = new Set<Promise<unknown>>()
  #isOpen = false
  #isClosed = false
  #settle: { resolve(): void; reject(error: Error): void } | undefined
  #failedStarts = 0
  #lastFailure: Error | undefined
  #retry: NodeJS.Timeout | undefined
  /** Includes stuck threads of other pools for the same plug-in at the same route. */
  readonly #gate: StartGate
  /** Totals of the runners that have ended. */
  #past = { recycled: 0, restarted: 0, droppedLines: 0, checks: 0 }

  constructor(
    kind: RunnerKind,
    { starts = processStarts, ...options }: RunnerPoolOptions,
    owner: RunnerPoolOwner,
  ) {
    this.#kind = kind
    this.#options = options
    this.#starts = starts
    this.#owner = owner
    this.opened = new Promise((resolve, reject) => (this.#settle = { resolve, reject }))
    this.#gate = processThreads.gate(kind.owner, () => this.#gateChanged())
    if (this.#gate.refusal) this.#settle?.reject(this.#gate.refusal)
    this.#fill()
  }

  /** Runners that may get calls. */
  get threads(): readonly Runner[] {
    return this.#threads
  }

  /** Whether runners are ending, whose calls may come back. */
  get isEnding(): boolean {
    return this.#ending.size > 0
  }

  /** Whether calls have to wait until ending threads are gone or known to be stuck. */
  get isPaused(): boolean {
    return this.#gate.isShut
  }

  /** The error for refused calls; undefined if calls are accepted. */
  get refusal(): Error | undefined {
    if (this.#gate.isStuck) return this.#gate.refusal
    if (!this.#isBreakerOpen) return undefined
    return new BreakerOpenError(this.#failedStarts, this.#lastFailure?.message ?? '')
  }

  /** A problem to report to the operator, or undefined. */
  get trouble(): string | undefined {
    const stuck = this.#countStuck()
    if (this.#gate.isStuck) return this.refusal?.message
    if (stuck > 0) return `${stuck} ${this.#kind.many} cannot be terminated`
    if (this.#ready.length > 0) return undefined
    return this.refusal?.message ?? `no ${this.#kind.one} is ready`
  }

  /** Totals of all runners. */
  get stats(): RunnerPoolStats {
    const reporting = this.#ready.map(({ stats }) => stats)
    const sum = (of: (stats: RunnerStats) => number) => reporting.reduce((all, each) => all + of(each), 0)
    return {
      instances: reporting.length,
      guestBytes: sum(({ guestBytes }) => guestBytes),
      kernelBytes: sum(({ kernelBytes }) => kernelBytes),
      recycled: this.#past.recycled + sum(({ recycled }) => recycled),
      restarted: this.#past.restarted + sum(({ restarted }) => restarted),
      droppedLines: this.#past.droppedLines + sum(({ droppedLines }) => droppedLines),
      checks: this.#past.checks + sum(({ checks }) => checks),
      stuck: this.#countStuck(),
      isBreakerOpen: this.#isBreakerOpen,
    }
  }

  /** Terminates a runner, whatever it does; another one replaces it. */
  retire(thread: Runner): void {
    this.#remove(thread)
    this.#end(thread)
    if (this.threads.length > 0) this.#owner.available()
    setImmediate(() => this.#fill()) // starting a thread takes a while: answer the call first
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#gate.close()
    clearTimeout(this.#retry)
    for (const leave of this.#queued.values()) leave()
    this.#queued.clear()
    for (const thread of [...this.#ready, ...this.#starting.keys()]) this.#end(thread)
    await Promise.all(this.#ending)
    this.#kind.close?.()
  }

  ready(thread: Runner): void {
    this.#setReady([...this.#ready, thread]) // first: whose turn is next depends on it
    this.#endStart(thread)
    this.#failedStarts = 0
    if (this.#ready.length >= this.#options.workers) {
      this.#isOpen = true
      this.#settle?.resolve()
    }
    this.#fill()
    this.#owner.available()
  }

  free(): void {
    this.#owner.available()
  }

  asking(): void {
    this.#owner.asking()
  }

  answered(thread: Runner, ms: number): void {
    this.#owner.answered(thread, ms)
  }

  late(): void {
    this.#owner.late()
  }

  broken(thread: Runner, reason: Error): void {
    if (!this.#remove(thread)) return
    this.#end(thread)
    this.#startFailed(reason)
  }

  ended(thread: Runner, unanswered: UnansweredCalls, reason: Error): void {
    const hadStarted = !this.#starting.has(thread)
    this.#endStart(thread)
    const wasReady = this.#remove(thread)
    this.#owner.left(unanswered, reason)
    if (this.#isClosed) return
    // A runner that ended by itself before it ran anything would do so again.
    const hasRun = thread.hasRun || unanswered.lost.length > 0
    if (!hadStarted || (wasReady && !hasRun)) this.#startFailed(reason)
    else this.#fill()
  }

  /** Closes without waiting for threads; their calls are rejected immediately. */
  abandon(): void {
    const threads = [...this.#ready]
    void this.close()
    for (const thread of threads) thread.abandon()
  }

  get #isBreakerOpen(): boolean {
    return this.#ready.length === 0 && this.#failedStarts >= BREAKER_STARTS
  }

  #countStuck(): number {
    return processThreads.countStuck(this.#gate.owner)
  }

  #gateChanged(): void {
    const { refusal } = this.#gate
    if (refusal) {
      this.#settle?.reject(refusal)
      this.#owner.refused(refusal)
    }
    if (this.#gate.isShut) return
    this.#fill()
    this.#owner.available()
  }

  #fill(): void {
    if (this.#isClosed || this.#retry || this.#gate.isShut) return
    const { workers, spareWorkers } = this.#options
    const wanted = workers + (this.#isOpen ? spareWorkers : 0)
    // Stop after an immediate failure; the retry timer continues.
    while (this.#ready.length + this.#starting.size + this.#queued.size < wanted && !this.#retry)
      this.#queue()
  }

  #queue(): void {
    const { workers } = this.#options
    const start: QueuedStart = {
      isUrgent: () => this.#ready.length < workers,
      begin: (leave) => {
        this.#queued.delete(start)
        this.#start(leave)
        hasBegun = true
      },
    }
    let hasBegun = false
    const leave = this.#starts.enter(start)
    if (!hasBegun) this.#queued.set(start, leave)
  }

  #start(leaveQueue: () => void): void {
    const { startTimeoutMs, plugin } = this.#options
    if (this.#gate.isShut) {
      leaveQueue() // its turn lasts until it opens
      return
    }
    try {
      const thread = this.#kind.start(this)
      const stopClock = startClock(startTimeoutMs, () => {
        thread.fail(new InstanceStartError(plugin.name, startedLate(startTimeoutMs)))
        this.#end(thread)
      })
      this.#starting.set(thread, { stopClock, leaveQueue })
    } catch (error) {
      this.#startFailed(error instanceof Error ? error : new Error(String(error)))
      leaveQueue()
    }
  }

  #endStart(thread: Runner): void {
    const starting = this.#starting.get(thread)
    this.#starting.delete(thread)
    starting?.stopClock()
    starting?.leaveQueue()
  }

  #startFailed(failure: Error): void {
    const reason = toStartFailure(failure, this.#options.plugin.name)
    if (this.#isOpen) this.#logFailure(reason) // otherwise `opened` is rejected with it
    this.#lastFailure = reason
    this.#failedStarts++
    this.#settle?.reject(reason)
    if (this.refusal) this.#owner.refused(this.refusal)
    if (this.#isClosed || this.#retry) return
    const factor = Math.min(2 ** (this.#failedStarts - 1), 30)
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#fill()
    }, this.#options.backoffMs * factor)
  }

  #logFailure(reason: Error): void {
    this.#options.log.error(
      { plugin: this.#options.plugin.name, ...errorFields(reason) },
      `a ${this.#kind.one} did not start`,
    )
  }

  #remove(thread: Runner): boolean {
    const isReady = this.#ready.includes(thread)
    if (isReady) {
      this.#setReady(this.#ready.filter((each) => each !== thread))
      this.#remember(thread.stats)
    }
    return isReady
  }

  /** A ready runner has failed or exceeded a deadline, or the pool closes. */
  #remember({ recycled, restarted, droppedLines, checks }: RunnerStats): void {
    this.#past.recycled += recycled
    this.#past.restarted += restarted + (this.#isClosed ? 0 : 1)
    this.#past.droppedLines += droppedLines
    this.#past.checks += checks
  }

  #setReady(ready: readonly Runner[]): void {
    this.#ready = ready
    this.#threads = ready.slice(0, this.#options.workers)
  }

  #end(thread: Runner): void {
    const ending: Promise<unknown> = thread.end().then(() => this.#ending.delete(ending))
    this.#ending.add(ending)
  }
}

/** Errors of wasm-serve pass unchanged. Others come from Node.js or the system, and are explained. */
export function toStartFailure(failure: Error, plugin: string): Error {
  if (hasOwnCode(failure)) return failure
  return new InstanceStartError(plugin, explainLimit(failure) ?? failure.message, { cause: failure })
}

/** A start that takes longer mostly waits, so its turn ends: a hanging start delays others no longer than this. */
const SLOW_START_MS = 1_000

/** A runner to start. */
interface QueuedStart {
  /** Whether calls need it: such starts have priority. Evaluated at each turn. */
  isUrgent(): boolean
  /** Starts the runner. @param leave - Call it when the runner has started or failed. */
  begin(leave: () => void): void
}

/**
 * Limits concurrent starts: each uses a core for some 30 ms, and starting all simultaneously would make each exceed its
 * time limit.
 */
export class StartQueue {
  readonly #limit: number
  readonly #slowMs: number
  #waiting: { isUrgent(): boolean; begin(): void }[] = []
  #running = 0

  constructor(limit: number, slowMs = SLOW_START_MS) {
    this.#limit = limit
    this.#slowMs = slowMs
  }

  /**
   * Runs a start when its turn comes, possibly immediately.
   *
   * @returns a function that withdraws the start.
   */
  enter(start: QueuedStart): () => void {
    let timer: NodeJS.Timeout | undefined
    let isOver = false
    const leave = () => {
      if (isOver) return
      isOver = true
      this.#waiting = this.#waiting.filter((each) => each !== entry)
      if (timer === undefined) return
      clearTimeout(timer)
      this.#running--
      this.#next()
    }
    const entry = {
      isUrgent: () => start.isUrgent(),
      begin: () => {
        timer = setTimeout(leave, this.#slowMs).unref()
        start.begin(leave)
      },
    }
    this.#waiting.push(entry)
    this.#next()
    return leave
  }

  #next(): void {
    while (this.#running < this.#limit) {
      const next = this.#waiting.find((each) => each.isUrgent()) ?? this.#waiting[0]
      if (!next) return
      this.#waiting = this.#waiting.filter((each) => each !== next)
      this.#running++
      next.begin()
    }
  }
}

/** The queue of the process, whose threads share its cores. */
export const processStarts = new StartQueue(Math.max(2, availableParallelism()))
