import type { FastifyBaseLogger } from 'fastify'
import { ChangeRefusedError } from '../../errors/errors.ts'
import { errorFields } from '../../errors/failure.ts'
import { Mutex } from '../../platform/mutex.ts'
import type { ProcessSupervisor, StartFailures } from './supervisor.ts'

interface SwapOwner {
  readonly log: FastifyBaseLogger
  readonly failures: Pick<StartFailures, 'add'>
}

/** Replaces processes that serve: only one at a time, so that the others serve. */
export class Swaps {
  readonly #owner: SwapOwner
  readonly #memoryMax: number | undefined
  readonly #mutex = new Mutex()
  #isRequested = false
  /** When a process may next be replaced because of its memory, after a failure. */
  #nextAt = 0

  /** @param memoryMax - Resident memory above which a process is replaced, in bytes. Default: no limit. */
  constructor(owner: SwapOwner, memoryMax: number | undefined) {
    this.#owner = owner
    this.#memoryMax = memoryMax
  }

  /**
   * Replaces all processes, one after another.
   *
   * @param renew - Called first: renews what new processes are started with. Returns what takes that back, if a new one cannot
   * serve.
   * @throws the reason of that; {@link ChangeRefusedError} while processes are replaced.
   */
  async all(
    slots: readonly ProcessSupervisor[],
    reason: string,
    renew: () => Promise<() => void>,
  ): Promise<void> {
    if (this.#mutex.isBusy) throw new ChangeRefusedError('processes are being replaced')
    await this.#mutex.run(async () => {
      const takeBack = await renew()
      try {
        for (const slot of slots) await slot.swap(reason)
      } catch (error) {
        takeBack()
        throw error
      }
    })
    this.#owner.log.info({ reason, processes: slots.length }, 'all serving processes were replaced')
  }

  /** Calls back when none runs: once for all requests that come before. @param replace - Calls {@link Swaps.all}. */
  async request(replace: () => Promise<void>): Promise<void> {
    if (this.#isRequested) return
    this.#isRequested = true
    while (this.#mutex.isBusy) await this.#mutex.idle
    this.#isRequested = false
    await replace()
  }

  /** Replaces a process whose memory is above the limit. */
  lookAtMemory(slot: ProcessSupervisor): void {
    const isPaused = this.#mutex.isBusy || performance.now() < this.#nextAt
    if (this.#memoryMax === undefined || isPaused || !slot.isAbove(this.#memoryMax)) return
    const { log, failures } = this.#owner
    const { number, memoryBytes } = slot.info
    log.warn({ process: number, memoryBytes, memoryMax: this.#memoryMax }, 'a serving process is too large')
    this.#mutex
      .run(() => slot.swap('memory'))
      .catch((error) => {
        this.#nextAt = performance.now() + failures.add()
        log.error({ process: number, ...errorFields(error) }, 'a serving process could not be replaced')
      })
  }
}
