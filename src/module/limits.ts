import { PluginTooComplexError } from '../errors/errors.ts'

/*
 * Limits on the compilation cost of a module. V8 has its own limits, but within them 30 KB can block a thread for
 * seconds, in native code that cannot be interrupted.
 *
 * Each limit is above the maximum found in 135 published modules (`npm run modules -- FILE...` prints the same figures
 * for others): Extism plug-ins, and the largest WebAssembly programs on npm, among them OpenCascade, DuckDB, Ruby, PHP,
 * Biome, esbuild, ONNX, Pyodide, R and Z3. `seen` is that maximum. The limits of optimising are only above those of
 * plug-ins and of Pyodide. Each limit is also below values that take too long. Times are seconds of CPU on one core of a small server, the worse of Node.js 20 and 24. *First call* is the time that
 * blocks the guest's thread: V8 compiles a function, without optimising, on its first call. Optimising follows in a
 * thread of V8. `npx tsx scripts/compile-cost.ts` repeats the measurements.
 */

interface ModuleLimit {
  /** The maximum, unless an option overrides it. */
  readonly limit: number
  /** The largest value in the measured modules. */
  readonly seen: number
  /** The counted unit, for messages: "a function has 40000 ...". */
  readonly what: string
}

/** Keyed by the names in `--module-limit`. */
export const MODULE_LIMITS = {
  /* Per module. */
  moduleBytes: { limit: 268_435_456, seen: 65_864_037, what: 'bytes' },
  /** Validating takes 0.01 s for each MB. */
  codeBytes: { limit: 134_217_728, seen: 55_708_022, what: 'bytes of code' },
  /** V8 keeps types for the life of the process, and Node.js 20 compares each with all: 5,000 take 0.4 s. */
  types: { limit: 5_000, seen: 1_719, what: 'types' },
  typeValues: { limit: 60_000, seen: 13_827, what: 'parameters, results and fields in all types' },
  imports: { limit: 10_000, seen: 834, what: 'imports' },
  functions: { limit: 300_000, seen: 83_373, what: 'functions' },
  tables: { limit: 16, seen: 3, what: 'tables' },
  /** Each reserves 8 GiB of addresses for each instance. */
  memories: { limit: 8, seen: 1, what: 'memories' },
  tags: { limit: 100, seen: 2, what: 'exception tags' },
  globals: { limit: 125_000, seen: 31_003, what: 'globals' },
  /** V8 up to Node.js 22 has the same limit. */
  exports: { limit: 100_000, seen: 75_111, what: 'exports' },
  elementSegments: { limit: 10_000, seen: 3, what: 'element segments' },
  /** Equal to the limit on entries of tables. */
  elements: { limit: 1_000_000, seen: 246_781, what: 'elements' },
  /** V8 has the same limit. Go splits its data into many segments. */
  dataSegments: { limit: 100_000, seen: 98_450, what: 'data segments' },
  customSections: { limit: 1_000, seen: 12, what: 'custom sections' },
  nameBytes: { limit: 33_554_432, seen: 7_163_589, what: 'bytes in names of imports and exports' },
  /** Each new instance evaluates them: 0.1 s on Node.js 24. */
  allExpressionBytes: {
    limit: 4_000_000,
    seen: 583_202,
    what: 'bytes in all constant expressions',
  },
  allLocals: { limit: 4_000_000, seen: 419_071, what: 'locals in all functions' },
  allWork: {
    limit: 300_000_000,
    seen: 75_227_995,
    what: 'values where branches begin and end, in all functions',
  },
  allCallValues: {
    limit: 16_000_000,
    seen: 3_957_033,
    what: 'values passed to and from calls, in all functions',
  },
  /** V8 optimises functions that run for some time, one of a module at a time: 10 s. */
  allOptimisingCost: {
    limit: 5_200_000_000,
    seen: 4_868_018_324,
    what: 'units of cost to optimize all functions (estimated)',
  },

  /* Per item. */
  /** Parameters and results, or fields. V8 places each of them at a call. */
  signatureValues: { limit: 256, seen: 91, what: 'parameters, results or fields' },
  /** An exception stores these outside of the guest's memory. */
  tagValues: { limit: 16, seen: 1, what: 'parameters' },
  expressionBytes: { limit: 4_096, seen: 10, what: 'bytes' },
  /** A function that is served has its name in routes, metrics and descriptions: 100 names of 100 KB took 1.35 GB. */
  exportNameBytes: { limit: 4_096, seen: 701, what: 'bytes' },

  /* Per function. */
  /** Optimising takes 1.2 s for each MB. */
  functionBytes: { limit: 6_000_000, seen: 4_452_260, what: 'bytes' },
  locals: { limit: 10_000, seen: 2_457, what: 'locals and parameters' },
  nesting: { limit: 15_000, seen: 3_290, what: 'nested blocks' },
  stackValues: { limit: 5_000, seen: 258, what: 'values on the stack' },
  /** Equal to V8's limit. */
  branchTargets: { limit: 65_520, seen: 5_490, what: 'targets of one br_table' },
  /** All locals and the stack at each start and end of a block, each branch and each call in a try. First call: 0.5 s. */
  functionWork: { limit: 20_000_000, seen: 14_820_345, what: 'values where branches begin and end' },
  /** All locals and the stack at each instruction. First call: 0.3 s. */
  walk: { limit: 800_000_000, seen: 215_758_603, what: 'live values, summed over all instructions' },
  /** First call: 0.3 s; Node.js 20 optimises it for 2 s. */
  callValues: { limit: 1_500_000, seen: 1_024_378, what: 'values passed to and from calls' },
  /** Locals that may differ where branches meet, counted per branch. V8 optimises for 2.6 s. */
  joins: { limit: 10_000_000, seen: 2_389_834, what: 'values that branches pass to the ends of blocks' },
  /** Locals that may differ where branches meet at the start of a loop. Node.js 20 optimises for 0.6 s. */
  loopJoins: { limit: 200_000, seen: 43_211, what: 'values that branches pass to the starts of loops' },
  /** V8 reads an inner loop once per enclosing loop. It optimises for 0.2 s. */
  loopBytes: { limit: 15_000_000, seen: 3_585_752, what: 'bytes of nested loops' },
  /** By `optimising-cost.ts`. Optimising takes 1 s, and 512 MiB. */
  optimisingCost: {
    limit: 420_000_000,
    seen: 390_953_928,
    what: 'units of cost to optimize (estimated)',
  },
} as const satisfies Record<string, ModuleLimit>

export type LimitName = keyof typeof MODULE_LIMITS

/** Overrides of {@link MODULE_LIMITS}, by name. */
export type ModuleLimits = Partial<Readonly<Record<LimitName, number>>>

export const LIMIT_NAMES = Object.keys(MODULE_LIMITS) as LimitName[]

/** Limits that are checked when all functions were read, so that the message has the number to set. */
const CHECKED_LAST: ReadonlySet<LimitName> = new Set([
  'allWork',
  'allCallValues',
  'allOptimisingCost',
  'optimisingCost',
])

/** Counts the parts of a module and rejects a module that exceeds a limit. */
export class FigureCounter {
  /** The maximum of each kind so far; for some the sum. */
  readonly figures: Record<LimitName, number>
  readonly #limits: ModuleLimits | 'none'
  readonly #plugin: string
  /** Where the figures of {@link CHECKED_LAST} exceed their limits. */
  readonly #exceeded = new Map<LimitName, string>()

  /**
   * @param limits - Overrides of {@link MODULE_LIMITS}; `none`: it only counts.
   * @param plugin - Its name, for messages.
   * @param figures - The initial figures.
   */
  constructor(limits: ModuleLimits | 'none', plugin: string, figures = NOTHING_COUNTED) {
    this.#limits = limits
    this.#plugin = plugin
    this.figures = { ...figures }
  }

  /** Adds to a figure. @throws {@link PluginTooComplexError} */
  count(limit: LimitName, more: number, where: string): void {
    this.found(limit, this.figures[limit] + more, where)
  }

  /** Keeps a figure if it is the largest so far. @throws {@link PluginTooComplexError} */
  found(limit: LimitName, value: number, where: string): void {
    if (value <= this.figures[limit]) return
    this.figures[limit] = value
    if (this.#limits === 'none') return
    if (value <= this.#limitOf(limit)) return
    this.#exceeded.set(limit, where)
    if (!CHECKED_LAST.has(limit)) this.finish()
  }

  /** All functions were read. @throws {@link PluginTooComplexError} */
  finish(): void {
    const [first] = this.#exceeded
    if (first === undefined) return
    const [limit, where] = first
    const flags = [...this.#exceeded.keys()].map((name) => `--module-limit ${name}=${this.figures[name]}`)
    const remedy = `if you trust the plug-in, set ${flags.join(' ')} (option "moduleLimits")`
    const { what } = MODULE_LIMITS[limit]
    throw new PluginTooComplexError(
      this.#plugin,
      where,
      this.figures[limit],
      what,
      this.#limitOf(limit),
      remedy,
    )
  }

  #limitOf(limit: LimitName): number {
    return (this.#limits === 'none' ? undefined : this.#limits[limit]) ?? MODULE_LIMITS[limit].limit
  }
}

const NOTHING_COUNTED: Readonly<Record<LimitName, number>> = Object.fromEntries(
  LIMIT_NAMES.map((name) => [name, 0]),
) as Record<LimitName, number>

/** The types of a module that count toward the limit of its process, as plain data. */
export interface ProcessTypes {
  /** A key for each type that other modules can share. */
  readonly shared: readonly string[]
  /** Number of types that other modules cannot share. */
  readonly own: number
}

/**
 * Maximum number of different types in all modules of a process. V8 shares them among modules, keeps them forever, and
 * aborts the process at a million. Node.js 20 compares each new one with all: 5,000 more take 2 s here.
 */
const MAX_PROCESS_TYPES = 30_000

/** The types of this process's modules: equal types count once. */
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
   * Counts the types of a module before it is compiled.
   *
   * @param name - The plug-in's, for messages.
   * @throws {@link PluginTooComplexError} if there are too many, and counts none of them.
   */
  take({ shared, own }: ProcessTypes, digest: string, name: string): void {
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
