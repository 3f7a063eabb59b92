import { ProcessStuckError, ThreadsStuckError } from '../errors/errors.ts'
import { type CoreWaits, longestWait, readCoreWaits } from './core-waits.ts'
import { startClock } from './event-loop.ts'

/**
 * Number of stuck threads at which a route, or the trial of a plug-in, starts no more: each takes memory, and may take
 * a core.
 */
const MAX_STUCK_THREADS_OF_OWNER = 2

/** Number of stuck threads at which the process should end: only a restart removes them. */
export const MAX_STUCK_THREADS = 4

/** How long a thread may take to end before it counts as stuck. Those that can be ended take some milliseconds. */
const WRITE_OFF_MS = 2_000

/** The factor by which a busy machine may extend the limit: time in which threads had no core does not count. */
const MAX_EXTENSION = 5

/** The part of the limit below which waits for a core are no lack of cores. */
const USUAL_WAIT = 0.05

/** Receives the log line about a thread that cannot be terminated. */
interface StuckThreadLog {
  error(fields: object, message: string): void
}

/** The required part of a `Worker`. */
interface RunningThread {
  readonly threadId: number
  terminate(): Promise<number>
  once(event: 'exit', listener: () => void): unknown
}

/** The owner of a thread's work, for the log and for the limits on stuck threads. */
export interface ThreadLabel {
  /** Host and URL of the route. */
  readonly route?: string | undefined
  /** Name of the plug-in. */
  readonly plugin?: string | undefined
  /** SHA-256 of the plug-in's main module, in hex. */
  readonly digest?: string | undefined
}

interface StuckLimits {
  /** Default: {@link MAX_STUCK_THREADS_OF_OWNER}. */
  readonly ofOwner?: number
  /** Default: {@link MAX_STUCK_THREADS}. */
  readonly ofProcess?: number
  /** Reads how long threads have waited for a core. Replaced by tests. */
  readonly waits?: () => CoreWaits
}

/**
 * Tracks the threads that run foreign code, and which of them cannot be terminated: those in a native call, such as
 * `fs.readSync` of a pipe in a host function, or a long compilation by V8.
 */
export class ThreadRegister {
  readonly #ofOwner: number
  readonly #ofProcess: number
  readonly #waits: () => CoreWaits
  /** Threads that have not ended. */
  readonly #threads = new Map<RunningThread, ThreadLabel>()
  /** Threads that are being terminated. */
  readonly #ending = new Set<RunningThread>()
  /** Threads that did not end in time. */
  readonly #stuck = new Set<RunningThread>()
  readonly #gates = new Set<StartGate>()
  #isProcessStuck = false
  #onProcessStuck: (() => void) | undefined

  constructor({
    ofOwner = MAX_STUCK_THREADS_OF_OWNER,
    ofProcess = MAX_STUCK_THREADS,
    waits = readCoreWaits,
  }: StuckLimits = {}) {
    this.#ofOwner = ofOwner
    this.#ofProcess = ofProcess
    this.#waits = waits
  }

  /** Must be called with each thread that runs foreign code: the process ends without it if need be. */
  track(worker: RunningThread, label: ThreadLabel): void {
    this.#threads.set(worker, label)
    worker.once('exit', () => {
      const last = this.#threads.get(worker) ?? label
      this.#threads.delete(worker)
      this.#stuck.delete(worker)
      if (this.#ending.delete(worker)) this.#changed(last)
    })
  }

  /** Changes the owner of a thread's work. */
  label(worker: RunningThread, label: ThreadLabel): void {
    if (this.#threads.has(worker)) this.#threads.set(worker, label)
  }

  /** See {@link terminateOrWriteOff}. */
  async terminate(worker: RunningThread, log: StuckThreadLog, limitMs: number): Promise<boolean> {
    const label = this.#threads.get(worker)
    if (!label) return worker.terminate().then(() => true) // it has ended
    if (this.#stuck.has(worker)) return false
    if (!this.#ending.has(worker)) {
      this.#ending.add(worker)
      this.#changed(label)
    }
    const hasEnded = await this.#ends(worker.terminate(), limitMs)
    if (!hasEnded && this.#threads.has(worker) && !this.#stuck.has(worker)) {
      this.#stuck.add(worker)
      log.error(
        { thread: worker.threadId, ...label, limitMs },
        'a thread is stuck in a native call and cannot be terminated',
      )
      this.#changed(label)
      this.#lookAtProcess(log)
    }
    return hasEnded
  }

  /** Terminates all threads. */
  async terminateAll(log: StuckThreadLog, limitMs: number): Promise<void> {
    await Promise.all([...this.#threads.keys()].map((worker) => this.terminate(worker, log, limitMs)))
  }

  /** Number of stuck threads, in total or of an owner. */
  countStuck(owner?: ThreadLabel): number {
    return owner ? this.#countOf(this.#stuck, owner) : this.#stuck.size
  }

  /**
   * Opens the gate that an owner's threads have to pass before they start.
   *
   * @param owner - Its values select the threads that count: those whose labels have all of them.
   * @param onChange - Called when the gate may have opened or closed.
   */
  gate(owner: ThreadLabel, onChange: () => void): StartGate {
    const gate = new StartGate(owner, onChange, this.#ofOwner, () => void this.#gates.delete(gate))
    this.#gates.add(gate)
    this.#count(gate)
    return gate
  }

  /** Calls back once when too many threads of the process are stuck, immediately if they already are. */
  onProcessStuck(callback: () => void): void {
    this.#onProcessStuck = callback
    if (this.#isProcessStuck) callback()
  }

  /** Whether a thread ends in time. It needs a core for that, which a busy machine may not give it. */
  async #ends(end: Promise<unknown>, limitMs: number): Promise<boolean> {
    let before = this.#waits()
    for (let [nextMs, passedMs] = [limitMs, 0]; ; ) {
      if (await isWithin(end, nextMs)) return true
      passedMs += nextMs
      const now = this.#waits()
      nextMs = Math.min(longestWait(before, now), limitMs * MAX_EXTENSION - passedMs)
      before = now
      if (nextMs <= limitMs * USUAL_WAIT) return false
    }
  }

  #changed(label: ThreadLabel): void {
    const gates = [...this.#gates].filter(({ owner }) => belongs(label, owner))
    const changed = gates.filter((gate) => this.#count(gate))
    for (const gate of changed) gate.onChange()
  }

  #count(gate: StartGate): boolean {
    return gate.count(this.#countOf(this.#ending, gate.owner), this.#countOf(this.#stuck, gate.owner))
  }

  #countOf(workers: ReadonlySet<RunningThread>, owner: ThreadLabel): number {
    let count = 0
    for (const worker of workers) if (belongs(this.#threads.get(worker), owner)) count++
    return count
  }

  /** Logs it once. */
  #lookAtProcess(log: StuckThreadLog): void {
    if (this.#isProcessStuck || this.#stuck.size < this.#ofProcess) return
    this.#isProcessStuck = true
    const { code, message } = new ProcessStuckError(this.#stuck.size)
    log.error({ code, threads: [...this.#stuck].map((worker) => this.#threads.get(worker)) }, message)
    this.#onProcessStuck?.()
  }
}

/** Says whether an owner may start threads. */
export class StartGate {
  readonly owner: ThreadLabel
  /** Called when the gate opens, shuts, or begins or ends to refuse. */
  readonly onChange: () => void
  /** Call it when the owner starts no more threads. */
  readonly close: () => void
  readonly #max: number
  #stuck = 0
  #isShut = false
  #isStuck = false

  constructor(owner: ThreadLabel, onChange: () => void, max: number, close: () => void) {
    this.owner = owner
    this.onChange = onChange
    this.close = close
    this.#max = max
  }

  /** Too many threads are stuck or are being terminated: no thread may start or get a call. */
  get isShut(): boolean {
    return this.#isShut
  }

  /** Too many threads are stuck: calls are refused. */
  get isStuck(): boolean {
    return this.#isStuck
  }

  /** The error for refused calls; undefined if calls are accepted. */
  get refusal(): Error | undefined {
    return this.#isStuck ? new ThreadsStuckError(this.#stuck) : undefined
  }

  /** Called by the register. @returns whether the gate has changed. */
  count(ending: number, stuck: number): boolean {
    const [wasShut, wasStuck] = [this.#isShut, this.#isStuck]
    this.#stuck = stuck
    this.#isShut = ending >= this.#max
    this.#isStuck = stuck >= this.#max
    return this.#isShut !== wasShut || this.#isStuck !== wasStuck
  }
}

function belongs(label: ThreadLabel | undefined, owner: ThreadLabel): boolean {
  if (!label || (!owner.route && !owner.plugin && !owner.digest)) return false
  return (
    (owner.route === undefined || owner.route === label.route) &&
    (owner.plugin === undefined || owner.plugin === label.plugin) &&
    (owner.digest === undefined || owner.digest === label.digest)
  )
}

/** A process that was stopped, or whose event loop was held, may not have processed the end yet. */
function isWithin(end: Promise<unknown>, limitMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const stopClock = startClock(limitMs, () => resolve(false))
    void end.then(() => {
      stopClock()
      resolve(true)
    })
  })
}

/** The threads of the process, which must be able to end without the stuck ones. */
export const processThreads = new ThreadRegister()

/** Must be called with each thread that runs foreign code. @param label - The owner of its work. */
export function trackThread(worker: RunningThread, label: ThreadLabel = {}): void {
  processThreads.track(worker, label)
}

/** Changes the owner of a tracked thread's work: a loading thread serves one plug-in after another. */
export function labelThread(worker: RunningThread, label: ThreadLabel): void {
  processThreads.label(worker, label)
}

/**
 * Ends a thread, whatever it runs: JavaScript and WebAssembly stop within milliseconds. A native call cannot be
 * stopped: its thread is written off, and logged once.
 *
 * @param worker - One that is tracked.
 * @returns false if it has not ended after `limitMs`; immediately if it was given up before.
 */
export function terminateOrWriteOff(
  worker: RunningThread,
  log: StuckThreadLog,
  limitMs = WRITE_OFF_MS,
): Promise<boolean> {
  return processThreads.terminate(worker, log, limitMs)
}

/** {@link terminateOrWriteOff} for all threads. */
export function terminateThreads(log: StuckThreadLog, limitMs: number): Promise<void> {
  return processThreads.terminateAll(log, limitMs)
}

/** Number of threads of the process that are stuck in native calls. */
export function stuckThreads(): number {
  return processThreads.countStuck()
}

/**
 * Waits until an owner may start a thread. It waits only while others of its threads are ending.
 *
 * @param owner - Its values select the threads that count, as in {@link ThreadRegister.gate}.
 * @throws {@link ThreadsStuckError} if it has reached the maximum of stuck threads.
 */
export async function mayStart(owner: ThreadLabel, register = processThreads): Promise<void> {
  let gate: StartGate | undefined
  try {
    await new Promise<void>((resolve, reject) => {
      const decide = () => {
        const refusal = gate?.refusal
        if (refusal) reject(refusal)
        else if (!gate?.isShut) resolve()
      }
      gate = register.gate(owner, decide)
      decide()
    })
  } finally {
    gate?.close()
  }
}
