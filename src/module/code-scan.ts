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
 * What functions do: their work, their loops and their calls. Work is an estimate of time, in ns, and a high one: each load
 * misses a cache.
 */

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
export type ReadView = ModuleView & { readonly bodies: FunctionBodies }

export interface Loop {
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
export interface FunctionCode {
  /** The work of its code, of which each part runs once. */
  readonly work: number
  readonly loops: readonly Loop[]
  readonly calls: readonly Call[]
  /** Whether it calls others through a table or a reference. */
  readonly callsAny: boolean
}

/** Reads functions. */
export class CodeScan {
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
