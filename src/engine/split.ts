import { GuestError } from '../errors/errors.ts'
import type { EngineStats } from '../observe/stats.ts'
import type { Caller } from '../runtime/runtime.ts'
import type { Engine } from './engine.ts'
import type { VersionCounts } from './version-counts.ts'

/**
 * Chooses which of two versions gets a call. Nothing is left to chance: of any 100 calls in a row exactly `percent` go to
 * the second, and they are spread evenly.
 *
 * @param percent - From 0 to 100.
 */
export function chooseVersion<Version>(first: Version, second: Version, percent: number): () => Version {
  let owed = 0
  return () => {
    owed += percent
    if (owed < 100) return first
    owed -= 100
    return second
  }
}

/** Counts the calls of one of two versions. To close it does nothing. */
export function countCalls(engine: Engine, counts: VersionCounts): Engine {
  return new CountedEngine(engine, counts)
}

class CountedEngine implements Engine {
  readonly name: Engine['name']
  readonly ready: Promise<void>
  readonly #engine: Engine
  readonly #counts: VersionCounts

  constructor(engine: Engine, counts: VersionCounts) {
    this.name = engine.name
    this.ready = engine.ready
    this.#engine = engine
    this.#counts = counts
  }

  get trouble(): string | undefined {
    return this.#engine.trouble
  }

  get stats(): EngineStats {
    return this.#engine.stats
  }

  call(exportName: string, input: Uint8Array, caller: Caller): ReturnType<Engine['call']> {
    this.#counts.calls++
    const failed = (error: unknown): never => {
      if (!(error instanceof GuestError)) this.#counts.failures++
      throw error
    }
    try {
      const output = this.#engine.call(exportName, input, caller)
      return output instanceof Uint8Array ? output : output.then((bytes) => bytes, failed)
    } catch (error) {
      return failed(error)
    }
  }

  async close(): Promise<void> {
    // It belongs to who opened it.
  }
}
