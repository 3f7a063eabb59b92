import type { Random } from '../support/random.ts'
import { below, mutate } from './mutate.ts'
import type { FuzzTarget } from './target.ts'

/** A target did not keep its promise. */
class FuzzFailure extends Error {
  readonly input: Uint8Array

  constructor(target: string, input: Uint8Array, cause: unknown) {
    const start = Buffer.from(input.subarray(0, 1_024)).toString('base64')
    super(`${target}: ${String(cause)}\n${input.length} bytes, in Base64: ${start}`, { cause })
    this.input = input
  }
}

/** Tries a target's inputs, and mutants of them. */
export class Fuzzer {
  readonly #target: FuzzTarget
  readonly #random: Random
  readonly #pool: Uint8Array[] = []
  readonly #results = new Set<string>()
  #tried = 0

  /** @param random - Decides all: with the same numbers and the same inputs, the same is tried. */
  constructor(target: FuzzTarget, random: Random) {
    this.#target = target
    this.#random = random
  }

  /** How many inputs were tried. */
  get tried(): number {
    return this.#tried
  }

  /** What came of them, each once. */
  get results(): ReadonlySet<string> {
    return this.#results
  }

  /**
   * Tries an input. If its result is new it is mutated from then on, as all inputs to begin with are.
   *
   * @returns whether the result is new.
   * @throws {@link FuzzFailure} if the target throws.
   */
  async try(input: Uint8Array, isToBeginWith = false): Promise<boolean> {
    this.#tried++
    const result = await this.#run(input)
    const isNew = !this.#results.has(result)
    this.#results.add(result)
    if (isNew || isToBeginWith) this.#pool.push(input)
    return isNew
  }

  /** A mutant of an input that was tried. */
  next(): Uint8Array {
    const [input, other] = [this.#choose(), this.#choose()]
    return this.#target.mutate?.(input, this.#random) ?? mutate(input, other, this.#random)
  }

  #choose(): Uint8Array {
    return this.#pool[below(this.#random, this.#pool.length)] ?? new Uint8Array()
  }

  async #run(input: Uint8Array): Promise<string> {
    try {
      return await this.#target.run(Uint8Array.from(input)) // it may write to it
    } catch (error) {
      throw new FuzzFailure(this.#target.name, input, error)
    }
  }
}
