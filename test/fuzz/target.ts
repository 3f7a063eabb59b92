import type { Random } from '../support/random.ts'

export type { Random }

/** Something that takes hostile bytes. */
export interface FuzzTarget {
  readonly name: string
  /** Inputs of the short form. Default: the whole corpus, and 50 mutants. */
  readonly shortInputs?: number
  /** Inputs to begin with, besides those of the corpus. */
  seeds(): Iterable<Uint8Array>
  /**
   * Tries one input.
   * @returns what came of it, in few words, e.g. a code: an input with a result that is new is kept in the corpus.
   * @throws if what is promised does not hold.
   */
  run(input: Uint8Array): string | Promise<string>
  /** Default: bytes are flipped, cut, repeated, inserted, and spliced with another input. */
  mutate?(input: Uint8Array, random: Random): Uint8Array
}
