import { ClientGoneError, DeadlineError } from '../errors/errors.ts'
import type { Caller } from '../observe/observe.ts'
import type { Pause } from '../runtime/runtime.ts'
import { isCancelRequested } from './engine.ts'
import { TurnScheduler } from './turn-scheduler.ts'
import type { StallWatch } from './watchdog.ts'

/** How long a guest runs in one turn of the event loop, in ms. */
export const SLICE_MS = 5

/** One slice in each turn. */
const slices = new TurnScheduler(0)

/** A call of a slow guest on the event loop. The guest is suspended when a slice is over, so that others run in between. */
export class SlicedCall {
  /** Whether the guest was suspended. */
  hasPaused = false
  /** Why the guest is interrupted. */
  endReason: Error | undefined
  readonly #exportName: string
  readonly #caller: Caller
  readonly #timeoutMs: number
  readonly #watch: StallWatch | undefined
  #since = performance.now()
  #ranMs = 0

  /**
   * @param timeoutMs - Deadline of the call, in ms, for the sum of its slices; 0: no limit. The watchdog cannot enforce it, because
   * it measures each slice separately.
   * @param watch - Interrupts the guest. Without it, nothing ends the guest.
   */
  constructor(exportName: string, caller: Caller, timeoutMs: number, watch: StallWatch | undefined) {
    this.#exportName = exportName
    this.#caller = caller
    this.#timeoutMs = timeoutMs
    this.#watch = watch
  }

  readonly pause: Pause = () => {
    const ms = performance.now() - this.#since
    if (ms < SLICE_MS) return undefined
    this.#ranMs += ms
    this.endReason ??= this.#findReason()
    if (this.endReason && this.#watch) {
      this.#watch.interrupt()
      return undefined
    }
    this.hasPaused = true
    return new Promise((resolve) => {
      slices.wait(() => {
        this.#since = performance.now()
        this.#watch?.watchTurn()
        resolve()
      })
    })
  }

  #findReason(): Error | undefined {
    if (this.#timeoutMs > 0 && this.#ranMs >= this.#timeoutMs)
      return new DeadlineError(this.#exportName, this.#timeoutMs)
    return isCancelRequested({ caller: this.#caller }) ? new ClientGoneError() : undefined
  }
}
