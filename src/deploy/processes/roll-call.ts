import type { Clock } from './clock.ts'
import type { ServingProcess } from './serving-process.ts'
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
   * The processes that serve and answer. Those that stay silent are killed, and their replacements have the new state. If
   * none is left, the next one is waited for.
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

  /** A process has joined those that serve. */
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
