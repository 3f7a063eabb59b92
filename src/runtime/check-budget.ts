import { CHECK_EXPORT } from '../module/names.ts'
import { openCheck } from './interrupts.ts'

const MAX_CHECKS = 0x7fff_ffff

/** Bounds the checks for interrupts of a call of one instance: a guest with more traps. Equal calls have as many on every machine. */
export class CheckBudget {
  readonly #most: number
  /** Checks that are left; below zero if there were too many. */
  readonly left = new WebAssembly.Global<'i32'>({ value: 'i32', mutable: true }, MAX_CHECKS)
  readonly #counters: WebAssembly.Global[] = []
  /** The function with which guests check. */
  readonly check = openCheck(this.left)

  /** @param most - Number of checks of a call, up to 2^31 - 1. */
  constructor(most: number) {
    this.#most = most
  }

  /** Whether modules count. */
  get isCounted(): boolean {
    return this.#counters.length > 0
  }

  /** Adds a module that stays for all calls. */
  add(exports: WebAssembly.Exports): void {
    const counter = exports[CHECK_EXPORT.counter]
    if (counter instanceof WebAssembly.Global) this.#counters.push(counter)
  }

  /** The instance starts: that has no bound. */
  beginStart(): void {
    this.left.value = MAX_CHECKS
  }

  /** A call begins. */
  begin(): void {
    this.left.value = this.#most
    for (const counter of this.#counters) counter.value = 0
  }

  /** The checks of the call so far. */
  get used(): number {
    return this.#most - Math.max(this.left.value, 0)
  }

  /** Whether the call had more checks than it may. */
  get isSpent(): boolean {
    return this.left.value < 0
  }
}
