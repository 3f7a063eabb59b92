import { Worker } from 'node:worker_threads'
import { GuestStallError } from '../errors.ts'
import { SLOTS, Slot, type WatchdogMessage, type WatchedRun } from './watchdog-state.ts'
import { workerFile } from './worker-file.ts'

/** A guest on the event loop, as the log names it. */
export interface WatchedGuest {
  /** The plug-in's name. */
  readonly plugin: string
  readonly function: string
  /** URL of the route. */
  readonly route: string
  /** How long it may hold the event loop. */
  readonly stallMs: number
}

/** Is told when a guest runs. Between a `begin` and its `end` other guests may begin and end. */
export interface StallWatch {
  /** The plug-in is being started. */
  beginStart(): void
  /** The function is being called. */
  beginCall(): void
  /** It has come back, or waits. */
  end(): void
  /** What waits may run on before the event loop turns: watches until it has. */
  watchTurn(): void
  /** Nothing of the guest will run any more. */
  close(): void
}

/**
 * Watches a guest from a thread, of which there is one in the process. If the guest holds the event loop for
 * `stallMs`, the thread writes one line to standard error and kills the process with SIGKILL. Time during which the
 * whole process stood still does not count.
 *
 * @param onFailure - Told if the thread ends without being asked to: nobody watches then.
 */
export function watchGuest(guest: WatchedGuest, onFailure: (error: unknown) => void): StallWatch {
  watchdog ??= new Watchdog(onFailure)
  return new GuestWatch(watchdog, guest)
}

/** Whether a debugger may hold the event loop, which is no stall. One that comes later, by SIGUSR1, goes unnoticed. */
export async function isDebugged(): Promise<boolean> {
  return process.features.inspector && (await import('node:inspector')).url() !== undefined
}

let watchdog: Watchdog | undefined

class Watchdog {
  readonly state = new Int32Array(new SharedArrayBuffer(SLOTS * Int32Array.BYTES_PER_ELEMENT))
  readonly #worker: Worker
  readonly #watched = new Set<number>()
  #last = 0

  constructor(onFailure: (error: unknown) => void) {
    this.#worker = new Worker(workerFile('watchdog-thread'), {
      name: 'wasm-serve watchdog',
      workerData: this.state,
      // Nothing of what the process was told to load first.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
    })
    this.#worker.unref()
    this.#worker.on('error', (error) => {
      if (watchdog === this) watchdog = undefined
      onFailure(error)
    })
  }

  /** @returns its number. */
  watch(run: Omit<WatchedRun, 'number'>): number {
    const number = ++this.#last
    this.#watched.add(number)
    this.#tell({ watch: { ...run, number } })
    return number
  }

  /** The thread ends with the last that is forgotten. */
  forget(number: number): void {
    this.#watched.delete(number)
    if (this.#watched.size > 0) {
      this.#tell({ forget: number })
      return
    }
    if (watchdog === this) watchdog = undefined
    Atomics.store(this.state, Slot.end, 1)
    Atomics.notify(this.state, Slot.end)
  }

  #tell(message: WatchdogMessage): void {
    this.#worker.postMessage(message)
  }
}

class GuestWatch implements StallWatch {
  readonly #watchdog: Watchdog
  readonly #state: Int32Array
  readonly #start: number
  readonly #call: number
  /** What ran when this began: a host function may call another guest. */
  #outer = 0

  constructor(watchdog: Watchdog, { stallMs, ...names }: WatchedGuest) {
    const run = (what: string) => {
      const { message, code } = new GuestStallError(what, stallMs)
      return watchdog.watch({ stallMs, line: { code, ...names, stallMs, msg: message } })
    }
    this.#watchdog = watchdog
    this.#state = watchdog.state
    this.#start = run(`The start of plug-in ${names.plugin}`)
    this.#call = run(`The guest function "${names.function}"`)
  }

  beginStart(): void {
    this.#begin(this.#start)
  }

  beginCall(): void {
    this.#begin(this.#call)
  }

  end(): void {
    Atomics.store(this.#state, Slot.running, this.#outer)
  }

  watchTurn(): void {
    Atomics.add(this.#state, Slot.sequence, 1)
    Atomics.store(this.#state, Slot.turn, this.#call)
    setImmediate(() => Atomics.store(this.#state, Slot.turn, 0))
  }

  close(): void {
    this.#watchdog.forget(this.#start)
    this.#watchdog.forget(this.#call)
  }

  #begin(number: number): void {
    const state = this.#state
    this.#outer = Atomics.load(state, Slot.running)
    Atomics.add(state, Slot.sequence, 1)
    Atomics.store(state, Slot.running, number)
  }
}
