import { CodeScan, type FunctionCode, type Loop, type ReadView } from './code-scan.ts'

/*
 * Where a guest has to count its work, so that it never runs for long without a check whether it is interrupted: in loops, and
 * at the entry of functions that may reach themselves, call through tables, or may work for long between two checks.
 *
 * Work is that of `code-scan.ts`, and a loop takes as many turns as it may.
 */

export interface LoopCheck {
  readonly when: TurnCheck
  /** The offsets of the branches to the start of the loop, before which the checks are; empty: the check is at its start. */
  readonly branches: readonly number[]
  /** The offset of the end of the loop, if branches may lead out of it to a call of the check. */
  readonly end: number | undefined
}

/** How a loop decides when to check. */
export type TurnCheck =
  /** Each turn counts so many units, as entries of functions do. */
  | { readonly units: number }
  /** After so many turns of such loops in a call of the function: a power of 2. */
  | { readonly turns: number }
  | StepCheck

/** Checks when the local has none of these bits, as it has once in 512 turns: each turn adds the same number to it. */
interface StepCheck {
  readonly local: number
  readonly mask: number
}

export interface Checkpoints {
  /** The units that the function counts at its entry; 0: none. */
  atEntry(place: number): number
  /** One for each loop of the function, in the order of their first bytes; undefined: it has one turn. */
  loopsOf(place: number): readonly (LoopCheck | undefined)[]
}

/** How many units of work entries of functions count between two checks. */
export const MAX_UNITS = 1_024

/** The work that loops may do between two checks, and calls of functions that count their entries. */
const MAX_WORK = 50_000_000

/** The work of a unit. */
const UNIT = MAX_WORK / MAX_UNITS

/** A function with more work counts its entry, with the work of the functions that it calls and that do not. */
const MAX_UNCOUNTED = 500_000

/** Most turns between two checks of a loop without calls and other loops. */
const MAX_TURNS = 512

/** The work that a loop may do between two checks if it counts in a local: the next run, or the next call, begins anew. */
const MAX_LOCAL_WORK = MAX_WORK / 10

export function findCheckpoints(view: ReadView): Checkpoints {
  const { count } = view.bodies
  const calls = new CallGraph(count)
  const scan = new CodeScan(view)
  for (let place = 0; place < count; place++) calls.add(place, scan.read(place))
  const entries = calls.countedEntries(scan.catches)
  return {
    atEntry: (place) => entries[place] ?? 0,
    loopsOf: (place) => calls.loopsOf(place).map(checkOf),
  }
}

function checkOf(loop: Loop): LoopCheck | undefined {
  if (!loop.always) return undefined
  const { isInner, isMovable, branches, hasOther, end } = loop
  const place =
    hasOther || branches.length > MAX_BRANCHES
      ? { branches: [], end: undefined }
      : { branches, end: isInner && isMovable ? end : undefined }
  return {
    when: isInner ? (stepOf(loop) ?? { turns: turnsOf(loop) }) : { units: unitsOf(loop.turn) },
    ...place,
  }
}

/** A loop with more branches to its start checks there. */
const MAX_BRANCHES = 2

/** The number of turns between two checks of an inner loop. */
function turnsOf({ turn }: Loop): number {
  return 2 ** Math.floor(Math.log2(Math.min(Math.max(MAX_LOCAL_WORK / turn, 1), MAX_TURNS)))
}

function stepOf({ isInner, turn, always }: Loop): StepCheck | undefined {
  const [step] = always ?? []
  if (!step || !isInner || turn * MAX_TURNS > MAX_LOCAL_WORK) return undefined
  const { local, by } = step
  // From the lowest bit of the step on, so many bits of the local have each value once in as many turns.
  const lowest = 31 - Math.clz32(by & -by)
  if (lowest > 32 - Math.log2(MAX_TURNS)) return undefined
  return { local, mask: (MAX_TURNS - 1) << lowest }
}

/** Which functions call each other directly. */
class CallGraph {
  readonly #functions: FunctionCode[] = []
  /** The units that each function counts at its entry. */
  readonly #entries: Uint16Array
  /** Work of a call of each function, as far as it does not check. */
  readonly #work: Float64Array
  readonly #states: Uint8Array
  #catches = true

  constructor(count: number) {
    this.#entries = new Uint16Array(count)
    this.#work = new Float64Array(count)
    this.#states = new Uint8Array(count)
  }

  add(place: number, code: FunctionCode): void {
    this.#functions[place] = code
  }

  loopsOf(place: number): readonly Loop[] {
    return this.#functions[place]?.loops ?? []
  }

  /** Finds the work of loops, and the functions that count their entries: one in each cycle. */
  countedEntries(catches: boolean): Uint16Array {
    this.#catches = catches
    const path: { readonly place: number; next: number }[] = []
    for (let first = 0; first < this.#functions.length; first++) {
      if (this.#states[first] !== UNSEEN) continue
      this.#states[first] = OPEN
      path.push({ place: first, next: 0 })
      for (let top = path.at(-1); top; top = path.at(-1)) {
        const call = this.#functions[top.place]?.calls[top.next++]
        if (!call) {
          this.#close(top.place)
          path.pop()
        } else if (this.#states[call.callee] === UNSEEN) {
          this.#states[call.callee] = OPEN
          path.push({ place: call.callee, next: 0 })
        } else if (this.#states[call.callee] === OPEN) this.#entries[call.callee] = 1
      }
    }
    return this.#entries
  }

  /** All functions that it calls are closed, except those that call it. */
  #close(place: number): void {
    this.#states[place] = CLOSED
    const code = this.#functions[place]
    if (!code) return
    this.#countLargest(code)
    let { work } = code
    for (const { callee, loop, isLast } of code.calls) {
      const called = this.#uncounted(callee)
      const goesOn = !isLast || this.#catches
      if (loop && goesOn) loop.isInner = false
      const repeated = goesOn ? repeatedBy(loop) : undefined
      if (repeated) repeated.turn += called
      else work += called
    }
    for (const loop of code.loops) {
      if (!loop.isInner || !loop.always) continue
      const most = loop.turn * (stepOf(loop) ? MAX_TURNS : turnsOf(loop))
      // What counts turns goes on in its next run.
      const repeated = stepOf(loop) && repeatedBy(loop.around)
      if (repeated) repeated.turn += most
      else work += most
    }
    const isCounted = this.#entries[place] !== 0 || code.callsAny || work > MAX_UNCOUNTED
    if (isCounted) this.#entries[place] = unitsOf(work)
    this.#work[place] = work
  }

  /** The work of a function that does not count its entries. */
  #uncounted(callee: number): number {
    return this.#entries[callee] === 0 ? (this.#work[callee] ?? 0) : 0
  }

  /** If a function has too much work with those that it calls, the largest of these count their entries. */
  #countLargest({ calls, work }: FunctionCode): void {
    let left = calls.reduce((sum, { callee }) => sum + this.#uncounted(callee), work)
    if (left <= MAX_WORK) return
    for (const { callee } of calls.toSorted(
      (a, b) => this.#uncounted(b.callee) - this.#uncounted(a.callee),
    )) {
      const called = this.#uncounted(callee)
      if (left <= MAX_WORK || called === 0) continue
      this.#entries[callee] = unitsOf(called)
      left -= called
    }
  }
}

/** The innermost loop with several turns. */
function repeatedBy(loop: Loop | undefined): Loop | undefined {
  let found = loop
  while (found && !found.always) found = found.around
  return found
}

function unitsOf(work: number): number {
  return Math.min(Math.ceil(work / UNIT), MAX_UNITS)
}

/** States of a function during the search. */
const UNSEEN = 0
const OPEN = 1
const CLOSED = 2
