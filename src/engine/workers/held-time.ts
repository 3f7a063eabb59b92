import { monotonicMs, type RunningCall } from './stamp.ts'

/** A time in which the event loop did not turn: nothing was answered, and nothing could be ended. */
export interface HeldTime {
  /** On {@link monotonicMs}'s clock. */
  readonly from: number
  readonly to: number
  /** How much of the processor the process used meanwhile, all its threads together. */
  readonly cpuMs: number
}

/** What tells the time. */
export interface Clocks {
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

/** Notices that the event loop was held, if it is asked often. */
export class HeldWatch {
  readonly #leastMs: number
  readonly #clocks: Clocks
  #from = 0
  #cpuMs = 0

  /** @param leastMs - What is shorter is the usual work of an event loop. */
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
