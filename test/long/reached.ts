import type { Report, Selection } from './mutant-runner.ts'

/** What it takes to load a test file, in milliseconds, next to which the tests of small files take nothing. */
const LOADING_MS = 100

/** The tests that reach a mutant are tried for so much of the time that all tests take. Those that are left would hardly ever fail. */
const SHARE = 0.05

/** The tests that compare pages with the tables they are made from: a mutant of a table shows there first. */
const PAGES = /^test\/unit\/docs\//

/** What a run without a mutant has found. */
export interface Found {
  /** Lines of a mutant, a file and a case. */
  readonly hits: string
  readonly durations: Report['durations']
}

/** Which tests reach which mutant, and how long they take: what a run without a mutant has found. */
export class Reached {
  /** The cases by file, by mutant. An empty case is all of the file, an empty file is one that was being loaded. */
  readonly #cases = new Map<number, Map<string, Set<string>>>()
  readonly #durations: Report['durations']
  readonly #maxMs: number

  constructor(parts: readonly Found[]) {
    this.#durations = Object.assign({}, ...parts.map(({ durations }) => durations))
    const files = Object.values(this.#durations)
    this.#maxMs = SHARE * sum(files.map((cases) => LOADING_MS + sum(Object.values(cases))))
    const hits = parts.map((part) => part.hits).join('')
    for (const [, mutant, file = '', id = ''] of hits.matchAll(/^(\d+) (\S*) ?(\S*)$/gm)) {
      const files = this.#cases.get(Number(mutant)) ?? new Map<string, Set<string>>()
      this.#cases.set(Number(mutant), files)
      files.set(file, (files.get(file) ?? new Set()).add(id))
    }
  }

  /** How many mutants tests reach. */
  get size(): number {
    return this.#cases.size
  }

  /**
   * The tests that reach a mutant: first those that are near and quick. What runs when a source is loaded is reached by
   * all that import it.
   *
   * @param related - The test files that import the source, with their distances.
   */
  testsOf(mutant: number, related: ReadonlyMap<string, number>): Selection[] {
    const reached = this.#cases.get(mutant)
    if (!reached) return []
    const far = Math.max(0, ...related.values()) + 1
    const loading = reached.has('') ? [...related.keys()] : []
    const files = [...new Set([...loading, ...reached.keys()])].filter((file) => file in this.#durations)
    const found = files.map((file): Ordered => {
      const ids = loading.includes(file) ? undefined : reached.get(file)
      const cases = ids && !ids.has('') ? [...ids] : undefined
      const own = this.#durations[file] ?? {}
      const ms = LOADING_MS + sum((cases ?? Object.keys(own)).map((id) => own[id] ?? 0))
      const distance = loading.includes(file) && PAGES.test(file) ? 0 : (related.get(file) ?? far)
      return { selection: cases ? { file, cases } : { file }, ms, cost: ms * distance }
    })
    let left = this.#maxMs
    return found
      .sort((one, other) => one.cost - other.cost)
      .filter(({ ms }, place) => {
        left -= ms
        return place === 0 || left > 0
      })
      .map(({ selection }) => selection)
  }
}

interface Ordered {
  readonly selection: Selection
  readonly ms: number
  /** What decides the order: far tests have to be quicker. */
  readonly cost: number
}

const sum = (all: readonly number[]) => all.reduce((total, each) => total + each, 0)
