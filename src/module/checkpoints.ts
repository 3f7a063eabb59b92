import { ByteReader } from './bytes.ts'
import {
  ACTION,
  ACTION_OF,
  CODE,
  MARK,
  MARKS,
  NO_RESULT,
  readCode,
  readHandlerKind,
  skipBlockType,
  skipImmediates,
} from './instructions.ts'
import { INLINED } from './merge.ts'
import { countImported, type FunctionBodies, type ModuleView } from './module-view.ts'
import { EXTISM_NAMESPACE } from './names.ts'
import { readValueType } from './types.ts'

/*
 * Where a guest has to count its work, so that it never runs for long without a check whether it is interrupted: in loops, and
 * at the entry of functions that may reach themselves, call through tables, or may work for long between two checks.
 *
 * Work is an estimate of time, in ns, and a high one: each load misses a cache, and each loop takes as many turns as it may.
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

/** Work of instructions. */
const WORK = {
  simple: 1,
  number: 5,
  access: 30,
  bulk: 10_000,
  throw: 32_768,
  host: 65_536,
  indirect: 100_000,
} as const

/** The first instruction that computes with numbers. */
const FIRST_NUMERIC = 0x45

/** A view with parsed code. */
type ReadView = ModuleView & { readonly bodies: FunctionBodies }

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

interface Loop {
  /** The innermost loop around it. */
  readonly around: Loop | undefined
  /** The work of the code before it. */
  readonly before: number
  /** The offset of its end. */
  end: number
  /** Whether blocks around it need other labels only: it has no parameters, no results, and no casts that branch. */
  isMovable: boolean
  /** The offsets of `br` and `br_if` to its start. */
  readonly branches: number[]
  /** Whether it has parameters, or other instructions that branch to its start. */
  hasOther: boolean
  /** Whether it has no other loop, and calls nothing, but what reports a panic. */
  isInner: boolean
  /** The work of a turn. */
  turn: number
  /** The steps that the code up to here has taken, whichever way led here. */
  steps: readonly Step[]
  /** The locals that the code up to here may have set otherwise. */
  others: readonly Setting[]
  /** The steps that each turn takes, with no other setting of their locals; undefined: no branch leads to its start. */
  always: readonly Step[] | undefined
}

interface Setting {
  readonly local: number
  /** Number of blocks around the code that follows. */
  readonly depth: number
}

/** A constant that is added to a local. */
interface Step extends Setting {
  readonly by: number
}

interface Call {
  /** The function's place among those that the module defines. */
  readonly callee: number
  /** The innermost loop around. */
  readonly loop: Loop | undefined
  /** Whether a trap follows, as after functions that report a panic. */
  readonly isLast: boolean
}

/** What a function has. */
interface FunctionCode {
  /** The work of its code, of which each part runs once. */
  readonly work: number
  readonly loops: readonly Loop[]
  readonly calls: readonly Call[]
  /** Whether it calls others through a table or a reference. */
  readonly callsAny: boolean
}

/** Reads functions. */
class CodeScan {
  /** Whether one of them catches exceptions, which may come from a call behind which there is a trap. */
  catches = false
  readonly #view: ReadView
  readonly #imported: number
  /** Whether each imported function is a short one of Extism's kernel. */
  readonly #isShort: readonly boolean[]
  readonly #reader: ByteReader

  constructor(view: ReadView) {
    const { bytes, name, imports } = view
    this.#view = view
    this.#imported = countImported(view, 'function')
    this.#isShort = imports
      .filter(({ kind }) => kind === 'function')
      .map(({ module, name }) => module === EXTISM_NAMESPACE && INLINED.includes(name))
    this.#reader = new ByteReader(bytes, 0, bytes.length, name)
  }

  read(place: number): FunctionCode {
    const { bodies } = this.#view
    const reader = this.#reader
    const end = bodies.ends[place] ?? 0
    reader.at = bodies.starts[place] ?? 0
    for (let groups = reader.u32(); groups > 0; groups--) {
      reader.u32()
      readValueType(reader)
    }
    const loops: Loop[] = []
    const calls: Call[] = []
    let callsAny = false
    let work = 0
    /** undefined: a block that is no loop. */
    const blocks: (Loop | undefined)[] = []
    let loop: Loop | undefined
    const step = new StepMatcher()
    while (reader.at < end) {
      const at = reader.at
      const code = readCode(reader)
      const immediates = reader.at
      skipImmediates(reader, code)
      const behind = reader.at
      reader.at = immediates
      const added = step.next(code, reader)
      reader.at = immediates
      work += workOf(code)
      switch (ACTION_OF[code]) {
        case ACTION.loop:
          if (loop) loop.isInner = false
          loop = newLoop(loop, work, reader.byte())
          loops.push(loop)
          blocks.push(loop)
          break
        case ACTION.try:
        case ACTION.tryTable:
          if (ACTION_OF[code] === ACTION.tryTable) branchToHandlers(blocks, reader)
          this.catches = true
          if (loop) loop.isInner = false // what throws leads to a handler, or to the start of the loop
          blocks.push(undefined)
          break
        case ACTION.block:
        case ACTION.if:
          blocks.push(undefined)
          break
        case ACTION.end:
        case ACTION.delegate: {
          const closed = blocks.pop()
          if (loop) leave(loop, blocks.length)
          if (!closed) break
          closed.end = at
          closed.turn = work - closed.before
          loop = closed.around
          break
        }
        case ACTION.else:
        case ACTION.catch:
        case ACTION.catchAll:
          if (loop) leave(loop, blocks.length - 1)
          break
        case ACTION.branch:
          branch(blocks, reader.u32(), at)
          if (loop) stop(loop, blocks.length)
          break
        case ACTION.branchIf:
          branch(blocks, reader.u32(), code === CODE.branchIf ? at : undefined)
          break
        case ACTION.branchTable:
          for (let targets = reader.u32(); targets >= 0; targets--) branch(blocks, reader.u32())
          if (loop) stop(loop, blocks.length)
          break
        case ACTION.branchCast:
          if (loop) loop.isMovable = false
          reader.byte()
          branch(blocks, reader.u32())
          break
        case ACTION.return:
        case ACTION.unreachable:
          if (loop) stop(loop, blocks.length)
          break
        case ACTION.set:
          if (loop) noteSet(loop, { local: reader.u32(), depth: blocks.length }, added)
          break
        case ACTION.call:
        case ACTION.returnCall: {
          const index = reader.u32()
          if (index >= this.#imported) {
            const isLast = this.#view.bytes[behind] === CODE.unreachable
            calls.push({ callee: index - this.#imported, loop, isLast })
          } else if (!this.#isShort[index]) {
            if (loop) loop.isInner = false
            work += WORK.host
          }
          break
        }
        case ACTION.callIndirect:
        case ACTION.callRef:
        case ACTION.returnCallIndirect:
        case ACTION.returnCallRef:
          callsAny = true
          if (loop) loop.isInner = false
          work += WORK.indirect
          break
        case ACTION.throw:
        case ACTION.rethrow:
        case ACTION.throwRef:
          work += WORK.throw
          break
        default:
          if ((MARKS[code] ?? 0) & MARK.bulk) {
            if (loop) loop.isInner = false
            work += WORK.bulk
          }
      }
      reader.at = behind
    }
    return { work, loops, calls, callsAny }
  }
}

function workOf(code: number): number {
  const action = ACTION_OF[code]
  if (action === ACTION.access || action === ACTION.accessLane) return WORK.access
  return code < FIRST_NUMERIC ? WORK.simple : WORK.number
}

/** @param type - The first byte of its type: others than negative ones are types with parameters. */
function newLoop(around: Loop | undefined, before: number, type: number): Loop {
  return {
    around,
    before,
    end: 0,
    isMovable: type === NO_RESULT,
    branches: [],
    hasOther: (type & 0xc0) !== 0x40,
    isInner: true,
    turn: 0,
    steps: [],
    others: [],
    always: undefined,
  }
}

/**
 * A branch leads to a label: 0 is the innermost block.
 *
 * @param at - The offset of a `br` or `br_if`.
 */
function branch(blocks: readonly (Loop | undefined)[], label: number, at?: number): void {
  const target = blocks.length - 1 - label
  const loop = blocks[target]
  if (loop) {
    if (at === undefined) loop.hasOther = true
    else loop.branches.push(at)
    const { steps, others } = loop
    loop.always = (loop.always ?? steps).filter(
      (step) => steps.includes(step) && !others.some(({ local }) => local === step.local),
    )
    return
  }
  const innermost = blocks.findLastIndex((block) => block !== undefined)
  const around = blocks[innermost]
  if (!around || target < innermost || around.others.length === 0) return
  // What was set is so behind the block, too.
  around.others = around.others.map(({ local, depth }) => ({ local, depth: Math.min(depth, target) }))
}

/** The catch clauses of a `try_table` are branches. */
function branchToHandlers(blocks: readonly (Loop | undefined)[], reader: ByteReader): void {
  skipBlockType(reader)
  for (let left = reader.u32(); left > 0; left--) {
    if (readHandlerKind(reader) < 2) reader.u32() // a tag
    branch(blocks, reader.u32())
  }
}

/** The code that follows is not reached from here: what was set here does not matter. @param depth - Number of blocks around it. */
function stop(loop: Loop, depth: number): void {
  if (loop.others.length > 0) loop.others = loop.others.filter((other) => other.depth < depth)
}

/** The code that follows may be reached without that of the block. @param depth - Number of blocks around it. */
function leave(loop: Loop, depth: number): void {
  const { steps, others } = loop
  if (others.some((other) => other.depth > depth))
    loop.others = others.map(({ local, depth: inside }) => ({ local, depth: Math.min(inside, depth) }))
  const left = steps.filter((step) => step.depth > depth)
  if (left.length === 0) return
  loop.steps = steps.filter((step) => step.depth <= depth)
  loop.others = [...loop.others, ...left.map(({ local }) => ({ local, depth }))]
}

/** @param added - What the last instructions add to a local; undefined if they do something else. */
function noteSet(loop: Loop, setting: Setting, added: Added | undefined): void {
  if (!loop.isInner) return // it will have no step
  const { local, depth } = setting
  if (added?.local === local && !loop.steps.some((step) => step.local === local))
    loop.steps = [...loop.steps, { ...setting, by: added.by }]
  else if (!loop.others.some((other) => other.local === local && other.depth <= depth))
    loop.others = [...loop.others, setting]
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

/** A constant, and the local to whose value it is added. */
type Added = Pick<Step, 'local' | 'by'>

/** Finds instructions that add a constant to a local: `local.get`, `i32.const`, `i32.add` or `i32.sub`, and a set. */
class StepMatcher {
  #local = -1
  #by = 0
  /** Number of matching instructions. */
  #length = 0

  /**
   * @param reader - At the immediates of the instruction; may move.
   * @returns the step that the instruction completes, if it sets that local.
   */
  next(code: number, reader: ByteReader): Added | undefined {
    const length = this.#length
    this.#length = 0
    if (code === CODE.localGet) {
      this.#local = reader.u32()
      this.#length = 1
    } else if (code === CODE.constant && length === 1) {
      this.#by = reader.s33()
      this.#length = 2
    } else if ((code === CODE.add || code === CODE.subtract) && length === 2) {
      if (code === CODE.subtract) this.#by = -this.#by
      this.#length = 3
    } else if (ACTION_OF[code] === ACTION.set && length === 3 && this.#by !== 0)
      return { local: this.#local, by: this.#by }
    return undefined
  }
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
