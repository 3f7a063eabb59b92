import { setImmediate as nextTurn } from 'node:timers/promises'

/** How long work that has many steps may hold the event loop. */
const HOLD_MS = 4

/** Steps that wait for something at the same time. */
const AT_ONCE = 8

/** Lets the event loop turn between the steps of long work, which may be done in several places at the same time. */
export class Pace {
  readonly #settle: () => PromiseLike<unknown>
  #since = performance.now()
  #turn: Promise<void> | undefined

  /** @param settle - Does what the steps have left to be done, before the event loop turns. */
  constructor(settle: () => PromiseLike<unknown> = async () => undefined) {
    this.#settle = settle
  }

  /** To be awaited after each step. */
  async step(): Promise<void> {
    if (!this.#turn && performance.now() - this.#since < HOLD_MS) return
    // One for all: each of them would hold the event loop in the same turn.
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
 * Does the same with many things, some at a time, so that the event loop turns meanwhile.
 *
 * @returns the results, in the order of the items.
 * @throws the first error, when all that was begun has ended; the rest is not begun.
 */
export async function pacedMap<Item, Result>(
  items: readonly Item[],
  step: (item: Item, index: number) => Promise<Result> | Result,
): Promise<Result[]> {
  const results: Result[] = []
  const entries = items.entries()
  const pace = new Pace()
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
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  if (failure) throw failure.error
  return results
}
