import { setTimeout } from 'node:timers/promises'

/** How the primary measures time. Replaced by tests. */
export interface Clock {
  /** Calls back every `ms`, with the milliseconds since the last time. @returns a function that ends it. */
  every(ms: number, pass: (passedMs: number) => void): () => void
  /** Waits, or until the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** The clock of the system. Its timers do not keep the process alive. */
export const realClock: Clock = {
  every(ms, pass) {
    let last = performance.now()
    const tick = () => {
      const now = performance.now()
      pass(now - last)
      last = now
    }
    const timer = setInterval(tick, ms).unref()
    return () => clearInterval(timer)
  },
  sleep: (ms, signal) => setTimeout(ms, undefined, { signal }).catch(() => undefined),
}
