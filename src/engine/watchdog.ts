import { Worker } from 'node:worker_threads'
import { workerFile } from '../platform/packages.ts'
import { explainLimit } from '../platform/system-errors.ts'
import { interruptRun, nextRun, runWords } from '../runtime/interrupts.ts'
import {
  callOf,
  type NamedGuest,
  type NumberedGuest,
  startOf,
  type WatchdogMessage,
  type WatchdogStart,
  type WatchedParent,
  Word,
  whatRuns,
} from './watchdog-state.ts'

/** A guest on the event loop. */
interface WatchedGuest extends NamedGuest {
  /** Whether code of the plug-in runs when it starts. */
  readonly runsAtStart: boolean
}

/** Notified when a guest runs. Between a `begin` and its `end` other guests may begin and end. */
export interface StallWatch {
  /** The plug-in's start begins. */
  beginStart(): void
  /** A call of the function begins. */
  beginCall(): void
  /** The run has returned, or waits. @returns whether it was interrupted. */
  end(): boolean
  /** Whether a run of the guest was interrupted since the last question. */
  takeInterruption(): boolean
  /** Interrupts the run. */
  interrupt(): void
  /** Waiting code may continue before the event loop turns: watches until then. */
  watchTurn(): void
  /** The guest will not run any more. */
  close(): void
}

/** Called with the failure of the watchdog's thread, and with undefined when it runs again. */
type Report = (failure: Error | undefined) => void

/** Replaced by tests. */
interface WatchdogOptions {
  /** Starts the thread. */
  readonly start?: (start: WatchdogStart) => Worker
  /** Delay after a failure of the thread. It doubles with each further failure in a row, up to 30 times. */
  readonly backoffMs?: number
}

/**
 * Watches guests from one thread per process. It interrupts a guest that runs for `deadlineMs`. If a guest blocks the event
 * loop for `stallMs`, the thread writes one line to standard error and kills the process with SIGKILL. Time during which the whole process was stopped does not count.
 * The thread is started when code of a guest runs for the first time: it takes as much CPU as a third of the server's start. One
 * that ends or cannot be started is restarted.
 *
 * @throws Error with the code `ERR_ACCESS_DENIED` if Node.js was started with `--permission` and without permission for threads.
 */
export function watchGuest(guest: WatchedGuest, report: Report, options: WatchdogOptions = {}): StallWatch {
  watchdog ??= new Watchdog(options)
  return new GuestWatch(watchdog, guest, report)
}

/**
 * Kills this process, whatever holds its event loop, when it has lived without its parent for `limitMs`. The thread starts
 * now. Does nothing where Node.js may start no thread.
 */
export function watchParent(limitMs: number, options: WatchdogOptions = {}): void {
  if (!mayStartThreads()) return
  watchdog ??= new Watchdog(options)
  watchdog.watchParent({ pid: process.ppid, limitMs })
}

/** The reason that stalls are currently not detected; undefined if they are, or if no guest is watched. */
export function watchdogTrouble(): string | undefined {
  return watchdog?.trouble
}

/** Whether a debugger may block the event loop, which is not a stall. A debugger attached later by SIGUSR1 is not detected. */
export function isDebugged(): boolean {
  return process.features.inspector && process.getBuiltinModule('node:inspector').url() !== undefined
}

let watchdog: Watchdog | undefined

/** The number of the last run of this event loop. */
let lastRun = 0

/** Guests of which a run was interrupted, until they are asked. */
const interrupted = new Set<number>()

const RESTART_BACKOFF_MS = 1_000
const MAX_BACKOFF_FACTOR = 30

function mayStartThreads(): boolean {
  // With types, it is always there; without `--permission`, it is not.
  const { permission = undefined } = process
  return !permission || permission.has('worker')
}

/** @throws Error with the code that starting a thread would throw. */
function requireThreads(): void {
  if (mayStartThreads()) return
  const message = 'the watchdog needs a thread; allow it (--allow-worker), or use --stall-ms 0'
  throw Object.assign(new Error(message), { code: 'ERR_ACCESS_DENIED', permission: 'WorkerThreads' })
}

class Watchdog {
  readonly state = runWords()
  readonly #end = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  readonly #start: (start: WatchdogStart) => Worker
  readonly #backoffMs: number
  readonly #watched = new Map<number, { readonly guest: NumberedGuest; readonly report: Report }>()
  #parent: WatchedParent | undefined
  #worker: Worker | undefined
  #failure: Error | undefined
  #failures = 0
  #retry: NodeJS.Timeout | undefined
  #last = 0

  constructor({ start = startThread, backoffMs = RESTART_BACKOFF_MS }: WatchdogOptions) {
    requireThreads()
    this.#start = start
    this.#backoffMs = backoffMs
  }

  get trouble(): string | undefined {
    const failure = this.#failure
    return failure && `the watchdog's thread does not run: ${explainLimit(failure) ?? failure.message}`
  }

  /** @returns its number. */
  watch(named: NamedGuest, report: Report): number {
    const number = ++this.#last
    const guest = { ...named, number }
    this.#watched.set(number, { guest, report })
    this.#post({ watch: guest })
    return number
  }

  watchParent(parent: WatchedParent): void {
    this.#parent = parent
    this.#post({ parent })
    this.beforeGuest()
  }

  /** Code of a guest is about to run. It may not return: the thread starts without another turn of the event loop. */
  beforeGuest(): void {
    if (!this.#worker && !this.#retry) this.#begin()
  }

  /** The thread ends when the last guest is removed, unless it watches the parent. */
  forget(number: number): void {
    this.#watched.delete(number)
    if (this.#isNeeded) {
      this.#post({ forget: number })
      return
    }
    if (watchdog === this) watchdog = undefined
    clearTimeout(this.#retry)
    Atomics.store(this.#end, 0, 1)
    Atomics.notify(this.#end, 0)
  }

  #begin(): void {
    try {
      const worker = this.#start({ state: this.state, end: this.#end })
      let failure: Error | undefined
      worker.unref()
      worker.on('error', (error: Error) => (failure = error))
      worker.once('online', () => this.#isThere())
      worker.once('exit', (code) => this.#failed(failure ?? new Error(`it exited with code ${code}`)))
      this.#worker = worker
      for (const { guest } of this.#watched.values()) this.#post({ watch: guest })
      if (this.#parent) this.#post({ parent: this.#parent })
    } catch (error) {
      this.#failed(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #isThere(): void {
    if (!this.#failure) return
    this.#failure = undefined
    this.#failures = 0
    this.#report(undefined)
  }

  get #isNeeded(): boolean {
    return this.#watched.size > 0 || this.#parent !== undefined
  }

  /** Does not keep the process alive. */
  #failed(failure: Error): void {
    this.#worker = undefined
    if (!this.#isNeeded) return // expected: nothing is watched any more
    if (!this.#failure) this.#report(failure)
    this.#failure = failure
    const again = () => {
      this.#retry = undefined
      this.#begin()
    }
    const backoffs = Math.min(2 ** this.#failures++, MAX_BACKOFF_FACTOR)
    this.#retry = setTimeout(again, this.#backoffMs * backoffs).unref()
  }

  /** One watchdog log is enough. */
  #report(failure: Error | undefined): void {
    const [first] = this.#watched.values()
    first?.report(failure)
  }

  /** A thread started later receives all guests at its start. */
  #post(message: WatchdogMessage): void {
    this.#worker?.postMessage(message)
  }
}

function startThread(start: WatchdogStart): Worker {
  return new Worker(workerFile('watchdog-thread'), {
    name: 'wasm-serve watchdog',
    workerData: start,
    // Without the modules that the process preloads (--import, --require).
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
  })
}

class GuestWatch implements StallWatch {
  readonly #watchdog: Watchdog
  readonly #state: Int32Array
  readonly #guest: number
  readonly #runsAtStart: boolean
  /** The enclosing run, and what it runs: a host function may call another guest. */
  #outer = 0
  #outerGuest = 0

  constructor(watchdog: Watchdog, { runsAtStart, ...guest }: WatchedGuest, report: Report) {
    this.#watchdog = watchdog
    this.#state = watchdog.state
    this.#runsAtStart = runsAtStart
    this.#guest = watchdog.watch(guest, report)
  }

  beginStart(): void {
    if (this.#runsAtStart) this.#watchdog.beforeGuest()
    this.#begin(startOf(this.#guest))
  }

  beginCall(): void {
    this.#watchdog.beforeGuest()
    this.#begin(callOf(this.#guest))
  }

  end(): boolean {
    return this.#store(this.#outer, this.#outerGuest)
  }

  takeInterruption(): boolean {
    const state = this.#state
    const isNow = whatRuns(state[Word.guest] ?? 0).guest === this.#guest && Atomics.load(state, Word.run) < 0
    if (isNow) Atomics.store(state, Word.run, 0) // it counts once
    return interrupted.delete(this.#guest) || isNow
  }

  interrupt(): void {
    interruptRun(this.#state, Math.abs(Atomics.load(this.#state, Word.run)))
  }

  watchTurn(): void {
    lastRun = nextRun(lastRun)
    const run = lastRun
    this.#store(run, callOf(this.#guest))
    setImmediate(() => {
      if (Math.abs(Atomics.load(this.#state, Word.run)) === run) this.#store(0, 0)
    })
  }

  close(): void {
    interrupted.delete(this.#guest)
    this.#watchdog.forget(this.#guest)
  }

  #begin(number: number): void {
    this.#outer = Atomics.load(this.#state, Word.run)
    this.#outerGuest = this.#state[Word.guest] ?? 0
    lastRun = nextRun(lastRun)
    this.#store(lastRun, number)
  }

  /** Another run follows. @returns whether the one before was interrupted. */
  #store(run: number, what: number): boolean {
    const state = this.#state
    const before = state[Word.guest] ?? 0
    state[Word.guest] = what
    const isInterrupted = Atomics.exchange(state, Word.run, run) < 0
    if (isInterrupted) interrupted.add(whatRuns(before).guest)
    return isInterrupted
  }
}
