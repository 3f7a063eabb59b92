import { CHECK_EXPORT } from '../module/names.ts'
import { type Suspending, suspending } from '../platform/missing-types.ts'
import type { CheckBudget } from './check-budget.ts'
import { openCheck } from './interrupts.ts'
import type { Pause } from './runtime.ts'

/** Suspends the guest of an instance, where it checks, if it is asked to. */
export class Pauses {
  readonly #suspending: Suspending
  readonly #table: WebAssembly.Table
  readonly #budget: CheckBudget | undefined
  readonly #usual: WebAssembly.ExportValue | undefined
  readonly #functions = new Map<string, () => Promise<unknown>>()
  #pause: Pause | undefined
  #check: WebAssembly.ExportValue | undefined

  private constructor(table: WebAssembly.Table, given: Suspending, budget: CheckBudget | undefined) {
    this.#suspending = given
    this.#table = table
    this.#budget = budget
    this.#usual = table.get(0)
  }

  /** @returns undefined if the guest does not check, or cannot be suspended. */
  static of(exports: WebAssembly.Exports, budget: CheckBudget | undefined): Pauses | undefined {
    const table = exports[CHECK_EXPORT.table]
    return suspending && table instanceof WebAssembly.Table
      ? new Pauses(table, suspending, budget)
      : undefined
  }

  /** A function of the guest as one that can be suspended. */
  promising(name: string, run: () => unknown): () => Promise<unknown> {
    const known = this.#functions.get(name) ?? this.#suspending.promising(run)
    this.#functions.set(name, known)
    return known
  }

  /** The next call may be suspended. {@link end} has to follow. */
  begin(pause: Pause): void {
    this.#pause = pause
    this.#check ??= this.#openCheck()
    this.#table.set(0, this.#check)
  }

  /** Other calls are not suspended. */
  end(): void {
    this.#table.set(0, this.#usual)
  }

  #openCheck(): WebAssembly.ExportValue | undefined {
    return openCheck(this.#budget?.left, new this.#suspending.Suspending(() => this.#pause?.()))
  }
}
