import { setImmediate as nextTurn } from 'node:timers/promises'

/** Lets the event loop turn once: between two parts of a change, requests are answered. */
export { nextTurn }

/**
 * Waits for work until a signal aborts the wait. The work itself continues: only its owner can end it.
 *
 * @throws the error of the work, or the reason of the signal.
 */
export async function unlessAborted<Result>(work: Promise<Result>, signal?: AbortSignal): Promise<Result> {
  if (!signal) return work
  let stop: () => void = () => undefined
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
  work.catch(() => undefined) // a rejection after the abort has no other handler
  try {
    return await Promise.race([stopped, work])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** The pause after this many failures in a row: it doubles. */
export function backoffMs(failures: number, firstMs: number, longestMs: number): number {
  return Math.min(firstMs * 2 ** (failures - 1), longestMs)
}

/** How long a sequence of steps may block the event loop, in milliseconds. */
const HOLD_MS = 4

/** How many steps of {@link mapWithYields} run at the same time. */
const CONCURRENT_STEPS = 8

/** Lets the event loop turn between the steps of long work. Several concurrent loops can share one. */
export class EventLoopYielder {
  readonly #settle: () => PromiseLike<unknown>
  #since = performance.now()
  #turn: Promise<void> | undefined

  /** @param settle - Finishes the work of the steps before the event loop turns. */
  constructor(settle: () => PromiseLike<unknown> = async () => undefined) {
    this.#settle = settle
  }

  /** Await it after each step. */
  async step(): Promise<void> {
    if (!this.#turn && performance.now() - this.#since < HOLD_MS) return
    // Shared by all loops: otherwise each would block the event loop in the same turn.
    this.#turn ??= this.#rest()
    await this.#turn
  }

  async #rest(): Promise<void> {
    await this.#settle()
    await nextTurn()
    this.#since = performance.now()
    this.#turn = undefined
  }
}

/**
 * Maps many items with limited concurrency, so that the event loop turns meanwhile.
 *
 * @returns the results, in the order of the items.
 * @throws the first error, after all running steps have ended; no further steps begin.
 */
export async function mapWithYields<Item, Result>(
  items: readonly Item[],
  step: (item: Item, index: number) => Promise<Result> | Result,
): Promise<Result[]> {
  const results: Result[] = []
  const entries = items.entries()
  const pace = new EventLoopYielder()
  let failure: { readonly error: unknown } | undefined
  const lane = async () => {
    for (const [index, item] of entries) {
      if (failure) return
      try {
        results[index] = await step(item, index)
      } catch (error) {
        failure ??= { error }
      }
      await pace.step()
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_STEPS }, lane))
  if (failure) throw failure.error
  return results
}

/** Number of intervals of the limit. */
const TICKS = 20

/**
 * Calls back after `limitMs` in which the event loop turned: while the loop is blocked, a start cannot be noticed.
 *
 * @returns a function that stops it.
 */
export function startClock(limitMs: number, onOver: () => void): () => void {
  const tickMs = Math.max(1, limitMs / TICKS)
  let leftMs = limitMs
  let last = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    leftMs -= Math.min(now - last, 2 * tickMs)
    last = now
    if (leftMs > 0) return
    clearInterval(timer)
    onOver()
  }, tickMs)
  return () => clearInterval(timer)
}
