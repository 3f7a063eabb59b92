import { ProcessEndedError } from '../../errors/errors.ts'
import { unlessAborted } from '../../platform/event-loop.ts'
import type { PreparedRoutes, ServedState } from '../replica.ts'
import type { Clock } from './clock.ts'
import { type ProcessEnd, renderEnd, type ServingProcess } from './serving-process.ts'
import type { Silence } from './silence.ts'

/** How long it waits for a process, if none serves. */
const JOIN_MS = 10_000

/** Finds the processes that take part in a change. */
export class RollCall {
  readonly #serving: () => readonly ServingProcess[]
  readonly #silence: Pick<Silence, 'wait'>
  readonly #clock: Pick<Clock, 'sleep'>
  #onJoin: () => void = () => undefined

  /** @param serving - The processes that serve. */
  constructor(
    serving: () => readonly ServingProcess[],
    silence: Pick<Silence, 'wait'>,
    clock: Pick<Clock, 'sleep'>,
  ) {
    this.#serving = serving
    this.#silence = silence
    this.#clock = clock
  }

  /**
   * The serving processes that respond. Those that do not are killed, and their replacements start with the new state. If
   * none is left, this waits for the next one.
   *
   * @param ending - Ends that wait.
   */
  async present(ending: AbortSignal): Promise<readonly ServingProcess[]> {
    const called = new Set<ServingProcess>()
    const call = (process: ServingProcess) => {
      called.add(process)
      return this.#silence.wait(process, process.replica.status())
    }
    let mayWait = true
    for (;;) {
      const all = this.#serving()
      const more = all.filter((process) => !called.has(process)) // some may have joined meanwhile
      if (more.length > 0) await Promise.allSettled(more.map(call))
      else if (all.length > 0 || !mayWait) return all
      else mayWait = await this.#nextJoins(ending)
    }
  }

  /** A new process has begun to serve. */
  join(): void {
    this.#onJoin()
  }

  /** @returns false if none has joined in time. */
  async #nextJoins(ending: AbortSignal): Promise<boolean> {
    const stop = new AbortController()
    const joins = new Promise<boolean>((resolve) => {
      this.#onJoin = () => resolve(true)
    })
    const late = this.#clock.sleep(JOIN_MS, AbortSignal.any([stop.signal, ending])).then(() => false)
    const hasJoined = await Promise.race([joins, late])
    stop.abort()
    return hasJoined
  }
}

/** A change of several processes: prepared by all, then committed by all, or aborted. No wait for a process is endless. */
export class Change {
  /** Resolves when it is about to be committed, or aborted. */
  readonly decided: Promise<void>
  /** Decides it: its end waits for the processes, and nobody else has to. */
  decide: () => void = () => undefined
  readonly #processes: ReadonlySet<ServingProcess>
  readonly #silence: Pick<Silence, 'wait'>
  readonly #failed = new AbortController()

  constructor(processes: readonly ServingProcess[], silence: Pick<Silence, 'wait'>) {
    this.#processes = new Set(processes)
    this.#silence = silence
    this.decided = new Promise((resolve) => {
      this.decide = resolve
    })
  }

  /** @throws the reason of the first process that cannot prepare it, or that ends meanwhile; the reason of the signal. */
  async prepare(state: ServedState, reason: string, asked?: AbortSignal): Promise<PreparedRoutes> {
    const failed = this.#failed
    const signal = asked ? AbortSignal.any([failed.signal, asked]) : failed.signal
    const preparing = this.#all(({ replica }) => replica.prepare(state, reason, signal))
    try {
      const prepared = await unlessAborted(Promise.all(preparing), signal)
      return { routes: prepared[0]?.routes ?? [], kept: Math.min(...prepared.map(({ kept }) => kept)) }
    } catch (error) {
      failed.abort(error)
      throw error
    }
  }

  /**
   * All messages leave in one step. A process that does not confirm is killed, and its replacement has the new state.
   *
   * @returns fields for the log.
   */
  async commit(revision: number): Promise<object> {
    const begun = performance.now()
    const commit = (process: ServingProcess) => process.replica.commit(revision).catch(() => process.kill())
    await Promise.all(this.#all(commit))
    const ms = Math.round((performance.now() - begun) * 100) / 100
    return { revision, processes: this.#processes.size, ms }
  }

  async abort(revision: number): Promise<void> {
    await Promise.allSettled(this.#all(({ replica }) => replica.abort(revision)))
  }

  /** A process has ended. */
  end(process: ServingProcess, how: ProcessEnd): void {
    if (!this.#processes.has(process)) return
    this.#failed.abort(new ProcessEndedError(process.number, renderEnd(how)))
  }

  #all<Result>(work: (process: ServingProcess) => Promise<Result>): Promise<Result>[] {
    return [...this.#processes].map((process) => this.#silence.wait(process, work(process)))
  }
}

/** Makes a change that was requested by a signal, which has no answer: again if a process ended meanwhile. */
export async function onceMore<Result>(change: () => Promise<Result>): Promise<Result> {
  try {
    return await change()
  } catch (error) {
    if (error instanceof ProcessEndedError) return change()
    throw error
  }
}
