import type { BlockStack } from './block-stack.ts'

/** The number of locals that most functions do not exceed. */
const FIRST_LOCALS = 256

/** Counts the conditions of branches, one function after another: its memory is reused. */
export class Conditions {
  count = 0
  /** Squares of the lengths of all runs of conditions that are joined values. */
  joinedSquares = 0
  /** Number of conditions that are locals which were conditions before, with the same value. */
  repeated = 0
  /** Number of conditions that are joined values, since the last that is not. */
  #run = 0
  /** Where each local was set last. */
  #sets = new Uint32Array(FIRST_LOCALS)
  /** Where each local was a condition last. */
  #conditions = new Uint32Array(FIRST_LOCALS)

  /** Begins a function. @param locals - Their number. */
  begin(locals: number): void {
    this.count = this.joinedSquares = this.repeated = this.#run = 0
    if (locals > this.#sets.length) {
      this.#sets = new Uint32Array(2 * locals)
      this.#conditions = new Uint32Array(2 * locals)
    } else {
      this.#sets.fill(0, 0, locals)
      this.#conditions.fill(0, 0, locals)
    }
  }

  /** A local is set. @param at - Where. */
  set(local: number, at: number): void {
    this.#sets[local] = at
  }

  /**
   * A branch has a condition.
   *
   * @param blocks - Those around it.
   * @param local - The local that is the condition; undefined if it is another value.
   * @param at - Where it is.
   */
  add(blocks: BlockStack, local: number | undefined, at: number): void {
    blocks.isAppended = false
    this.count++
    const setAt = local === undefined ? 0 : (this.#sets[local] ?? 0)
    const isJoined =
      blocks.joinEnd > 0 &&
      (local === undefined
        ? blocks.joinsResults && at === blocks.joinEnd
        : setAt >= blocks.joinStart && (blocks.joinsResults || setAt < blocks.joinEnd))
    blocks.joinEnd = 0
    this.#run = isJoined ? this.#run + 1 : 0
    if (isJoined) this.joinedSquares += 2 * this.#run - 1
    if (local === undefined) return
    if ((this.#conditions[local] ?? 0) > setAt) this.repeated++
    this.#conditions[local] = at
  }
}
