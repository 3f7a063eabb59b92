import { PluginTooComplexError } from '../errors/errors.ts'

/** The types of a module, as far as they count for its process. It is plain data. */
export interface ModuleTypes {
  /** A text for each that other modules can share. */
  readonly shared: readonly string[]
  /** How many no other module can share. */
  readonly own: number
}

/**
 * Most different types of all modules that a process compiles. V8 shares them among modules, keeps them for ever, and
 * aborts the process at a million. Node.js 20 compares each new one with all: 5,000 more take 2 s here.
 */
export const MAX_PROCESS_TYPES = 30_000

/** The types that the modules of this process have brought: equal ones count once. */
export class TypeBudget {
  readonly #shared = new Set<string>()
  readonly #digests = new Set<string>()
  readonly #most: number
  #own = 0

  constructor(most = MAX_PROCESS_TYPES) {
    this.#most = most
  }

  get used(): number {
    return this.#shared.size + this.#own
  }

  /**
   * Counts the types of a module that is to be compiled.
   *
   * @param name - The plug-in's, for messages.
   * @throws {@link PluginTooComplexError} if there are too many, and counts none of them.
   */
  take({ shared, own }: ModuleTypes, digest: string, name: string): void {
    const more = shared.filter((type) => !this.#shared.has(type))
    const moreOwn = own > 0 && !this.#digests.has(digest) ? own : 0
    const all = this.used + more.length + moreOwn
    if (all > this.#most) {
      const where = 'with the plug-ins that were loaded before, the process'
      throw new PluginTooComplexError(name, where, all, 'different types', this.#most, RESTART)
    }
    for (const type of more) this.#shared.add(type)
    if (moreOwn > 0) this.#digests.add(digest)
    this.#own += moreOwn
  }
}

const RESTART = 'a new process starts with none'
