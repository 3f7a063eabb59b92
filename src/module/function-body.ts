import { ACTION, codeOf, DO, FIRST_PREFIX, GC_CODES, POPS, PUSHES } from './instructions.ts'
import type { TypeTable } from './types.ts'

/** What a function asks of the compiler. */
export interface BodyFigures {
  /** Deepest nesting of blocks. */
  nesting: number
  /** Most values on its stack at a time. */
  stackValues: number
  /** Most targets of one `br_table`. */
  branchTargets: number
  /**
   * Values that a compiler has to place: at each branch and at each end of a block all locals and the stack, at each
   * call what is handed over.
   */
  work: number
  /** Values handed to and from what it calls. */
  callValues: number
  /** Values that differ where branches meet, from each of them. */
  joins: number
  /** The same where branches go back to the start of a loop. */
  loopJoins: number
  /** All locals and the stack, at each instruction. */
  walk: number
  /** Lengths of all loops, each with the loops in it. */
  loopBytes: number
  /** Whether it uses garbage-collected values. */
  isCollected: boolean
}

/** What a function may name. */
export interface BodyContext {
  readonly types: TypeTable
  /** Types of all functions, those that are imported first. */
  readonly functions: ArrayLike<number>
  /** Types of all tags. */
  readonly tags: ArrayLike<number>
}

/** Reads functions one after another: its memory is used again. */
export class BodyReader {
  readonly figures: BodyFigures = {
    ...{
      nesting: 0,
      stackValues: 0,
      branchTargets: 0,
      work: 0,
      callValues: 0,
      joins: 0,
      loopJoins: 0,
      walk: 0,
      loopBytes: 0,
    },
    isCollected: false,
  }
  readonly #bytes: Uint8Array
  readonly #context: BodyContext
  readonly #frames = new Frames()

  constructor(bytes: Uint8Array, context: BodyContext) {
    this.#bytes = bytes
    this.#context = context
  }

  /**
   * Reads the instructions of a function.
   *
   * @param start - Behind the locals.
   * @param locals - How many, with the parameters.
   * @param results - How many.
   * @returns undefined if it is understood, and {@link figures} are its own; else where it is not.
   */
  read(start: number, end: number, locals: number, results: number): number | undefined {
    const bytes = this.#bytes
    const { types, functions, tags } = this.#context
    let { opcodes, bases, params, resultsOf, starts, setsAt, branches } = this.#frames
    let at = start
    let depth = 0
    let height = 0
    let base = 0
    let unreachable = false
    let tries = 0
    let work = 0
    let loopBytes = 0
    let callValues = 0
    let joins = 0
    let loopJoins = 0
    let walk = 0
    let sets = 0
    let nesting = 0
    let stackValues = 0
    let branchTargets = 0
    let isCollected = false

    const u32 = (): number => {
      let byte = bytes[at++] ?? 0
      if (byte < 0x80) return byte
      let value = byte & 0x7f
      for (let factor = 0x80; factor <= 0x10_000_000; factor *= 0x80) {
        byte = bytes[at++] ?? 0
        value += (byte & 0x7f) * factor
        if (byte < 0x80) return value
      }
      at = end + 1 // too long: the engine refuses it
      return 0
    }
    /** An index, or a negative code. */
    const s33 = (): number => {
      let value = 0
      for (let factor = 1; factor <= 0x10_000_000; factor *= 0x80) {
        const byte = bytes[at++] ?? 0
        value += (byte & 0x7f) * factor
        if (byte < 0x80) return byte & 0x40 ? value - factor * 0x80 : value
      }
      at = end + 1
      return 0
    }
    const heapType = () => {
      const code = s33()
      if (code >= 0) return
      if (isCollectedHeapType(code)) isCollected = true
      else if (!isHeapType(code)) at = end + 1
    }
    const valueType = () => {
      const code = bytes[at++] ?? 0
      if (code === 0x63 || code === 0x64) heapType()
      else if (isCollectedHeapType(code - 0x80)) isCollected = true
      else if (!isNumberType(code) && !isHeapType(code - 0x80)) at = end + 1
    }
    const access = () => {
      if (u32() & HAS_MEMORY_INDEX) u32()
      while ((bytes[at++] ?? 0) >= 0x80);
    }
    const pop = (count: number) => {
      height -= count
      if (height < base) {
        if (!unreachable) at = end + 1
        height = base
      }
    }
    const push = (count: number) => {
      height += count
      if (height > stackValues) stackValues = height
    }
    const stop = () => {
      unreachable = true
      height = base
    }
    const enter = (opcode: number) => {
      let [from, to] = [0, 0]
      if (opcode !== 0) {
        const code = bytes[at]
        if (code === 0x40) at++
        else if (code !== undefined && code >= 0x40 && code < 0x80) {
          valueType()
          to = 1
        } else {
          const type = s33()
          // No result, in more bytes than it needs, which V8 reads too.
          if (type !== NO_RESULT && !types.isFunction(type)) at = end + 1
          from = types.params(type)
          to = types.results(type)
        }
        pop(from)
      } else to = results
      if (depth === opcodes.length) {
        this.#frames.grow()
        ;({ opcodes, bases, params, resultsOf, starts, setsAt, branches } = this.#frames)
      }
      opcodes[depth] = unreachable ? opcode | OUTER_UNREACHABLE : opcode
      bases[depth] = height
      params[depth] = from
      resultsOf[depth] = to
      starts[depth] = at
      setsAt[depth] = sets
      branches[depth] = opcode === IF ? 1 : 0
      depth++
      if (depth > nesting) nesting = depth
      unreachable = false // in there the stack is as it should be again
      base = height
      push(from)
    }
    /** The end of what a block holds: exactly its results are on the stack, unless the place cannot be reached. */
    const finish = () => {
      const wanted = base + (resultsOf[depth - 1] ?? 0)
      if (unreachable ? height > wanted : height !== wanted) at = end + 1
      work += locals + wanted
    }
    const reopen = (opcode: number, values: number) => {
      opcodes[depth - 1] = opcode | ((opcodes[depth - 1] ?? 0) & OUTER_UNREACHABLE)
      unreachable = false
      height = base
      push(values)
    }
    const leave = () => {
      finish()
      const opened = opcodes[depth - 1] ?? 0
      const code = opened & ~OUTER_UNREACHABLE
      if (code === LOOP) loopBytes += at - (starts[depth - 1] ?? 0)
      if (code === TRY || code === TRY_TABLE) tries--
      const values = resultsOf[depth - 1] ?? 0
      const met = branches[depth - 1] ?? 0
      if (met > 0 || code === LOOP) {
        const changed = Math.min(locals, sets - (setsAt[depth - 1] ?? 0))
        if (code === LOOP) loopJoins += (met + 1) * (changed + (params[depth - 1] ?? 0))
        else joins += (met + 1) * (changed + values)
      }
      depth--
      height = base
      base = depth > 0 ? (bases[depth - 1] ?? 0) : 0
      unreachable = (opened & OUTER_UNREACHABLE) !== 0
      push(values)
    }
    const meet = (label: number) => {
      if (label < depth) branches[depth - 1 - label] = (branches[depth - 1 - label] ?? 0) + 1
      else at = end + 1
    }
    const call = (type: number, isLast: boolean) => {
      if (!types.isFunction(type)) at = end + 1
      const [from, to] = [types.params(type), types.results(type)]
      callValues += from + to
      if (tries > 0) work += locals + height
      pop(from)
      if (isLast) stop()
      else push(to)
    }

    enter(0)
    while (at < end && depth > 0) {
      let code = bytes[at++] ?? 0
      if (code >= FIRST_PREFIX) code = codeOf(code, u32())
      walk += locals + height
      const pops = POPS[code] ?? 0
      if (pops > 0) pop(pops)
      switch (ACTION[code]) {
        case DO.nothing:
          break
        case DO.set:
          sets++
          while ((bytes[at++] ?? 0) >= 0x80);
          break
        case DO.number:
          while ((bytes[at++] ?? 0) >= 0x80);
          break
        case DO.numbers:
          while ((bytes[at++] ?? 0) >= 0x80);
          while ((bytes[at++] ?? 0) >= 0x80);
          break
        case DO.access:
          access()
          break
        case DO.end:
          leave()
          break
        case DO.block:
          work += locals + height
          enter(BLOCK)
          break
        case DO.loop:
          work += locals + height
          enter(LOOP)
          break
        case DO.if:
          work += locals + height
          enter(IF)
          break
        case DO.else:
          if (((opcodes[depth - 1] ?? 0) & ~OUTER_UNREACHABLE) !== IF) return at
          finish()
          reopen(BLOCK, params[depth - 1] ?? 0)
          break
        case DO.branch:
          meet(u32())
          work += locals + height
          stop()
          break
        case DO.branchIf:
          meet(u32())
          work += locals + height
          break
        case DO.branchTable: {
          const targets = u32()
          if (targets > end - at) return at
          for (let left = targets; left >= 0; left--) meet(u32())
          if (targets > branchTargets) branchTargets = targets
          work += (targets + 1) * (locals + height)
          stop()
          break
        }
        case DO.return:
          callValues += results
          stop()
          break
        case DO.call: {
          const index = u32()
          call(functions[index] ?? -1, false)
          break
        }
        case DO.callIndirect: {
          const type = u32()
          u32()
          call(type, false)
          break
        }
        case DO.callRef:
          call(u32(), false)
          break
        case DO.returnCall: {
          const index = u32()
          call(functions[index] ?? -1, true)
          break
        }
        case DO.returnCallIndirect: {
          const type = u32()
          u32()
          call(type, true)
          break
        }
        case DO.returnCallRef:
          call(u32(), true)
          break
        case DO.bytes4:
          at += 4
          break
        case DO.bytes8:
          at += 8
          break
        case DO.bytes16:
          at += 16
          break
        case DO.lane:
          at++
          break
        case DO.accessLane:
          access()
          at++
          break
        case DO.heapType:
          heapType()
          break
        case DO.select:
          if (u32() !== 1) return at
          valueType()
          break
        case DO.unreachable:
          stop()
          break
        case DO.try:
          work += locals + height
          enter(TRY)
          tries++
          break
        case DO.catch: {
          const opened = (opcodes[depth - 1] ?? 0) & ~OUTER_UNREACHABLE
          if (opened !== TRY && opened !== CATCH) return at
          if (opened === TRY) tries--
          const tag = tags[u32()]
          if (tag === undefined || !types.isFunction(tag)) return at
          finish()
          reopen(CATCH, types.params(tag))
          work += locals + height
          break
        }
        case DO.catchAll: {
          const opened = (opcodes[depth - 1] ?? 0) & ~OUTER_UNREACHABLE
          if (opened !== TRY && opened !== CATCH) return at
          if (opened === TRY) tries--
          finish()
          reopen(BLOCK, 0)
          work += locals + height
          break
        }
        case DO.delegate:
          if (((opcodes[depth - 1] ?? 0) & ~OUTER_UNREACHABLE) !== TRY) return at
          u32()
          leave()
          break
        case DO.tryTable: {
          // The type comes first, then what it catches, which is not in the block.
          work += locals + height
          enter(TRY_TABLE)
          const handlers = u32()
          if (handlers > end - at) return at
          for (let left = handlers; left > 0; left--) {
            const kind = bytes[at++] ?? 0
            if (kind > 3) return at
            if (kind < 2) u32()
            const label = u32()
            if (label + 1 >= depth) return at // counted from outside of the block
            meet(label + 1)
          }
          work += handlers * (locals + height)
          tries++
          break
        }
        case DO.throw: {
          const tag = tags[u32()]
          if (tag === undefined || !types.isFunction(tag)) return at
          callValues += types.params(tag)
          if (tries > 0) work += locals + height
          pop(types.params(tag))
          stop()
          break
        }
        case DO.rethrow:
          u32()
          if (tries > 0) work += locals + height
          stop()
          break
        case DO.throwRef:
          if (tries > 0) work += locals + height
          stop()
          break
        case DO.branchCast:
          at++
          meet(u32())
          work += locals + height
          heapType()
          heapType()
          break
        case DO.structNew: {
          const type = u32()
          callValues += types.fields(type)
          pop(types.fields(type))
          break
        }
        case DO.arrayFixed: {
          u32()
          const count = u32()
          callValues += count
          pop(count)
          break
        }
        default:
          return at
      }
      if (code >= GC_CODES.first && code < GC_CODES.behind) isCollected = true
      const pushes = PUSHES[code] ?? 0
      if (pushes > 0) push(pushes)
    }
    if (at !== end || depth !== 0) return at
    const figures = this.figures
    figures.nesting = nesting
    figures.stackValues = stackValues
    figures.branchTargets = branchTargets
    figures.work = work
    figures.callValues = callValues
    figures.joins = joins
    figures.loopJoins = loopJoins
    figures.walk = walk
    figures.loopBytes = loopBytes
    figures.isCollected = isCollected
    return undefined
  }
}

/** The blocks that are open, each with its place in these lists. */
class Frames {
  /** What has opened it, with {@link OUTER_UNREACHABLE}. */
  opcodes = new Uint8Array(FIRST_FRAMES)
  /** Values on the stack below it. */
  bases = new Int32Array(FIRST_FRAMES)
  params = new Int32Array(FIRST_FRAMES)
  resultsOf = new Int32Array(FIRST_FRAMES)
  /** Where it begins. */
  starts = new Int32Array(FIRST_FRAMES)
  /** How often locals were set before it. */
  setsAt = new Int32Array(FIRST_FRAMES)
  /** How many branches lead to its label. */
  branches = new Int32Array(FIRST_FRAMES)

  grow(): void {
    const opcodes = new Uint8Array(this.opcodes.length * 2)
    opcodes.set(this.opcodes)
    this.opcodes = opcodes
    this.bases = grown(this.bases)
    this.params = grown(this.params)
    this.resultsOf = grown(this.resultsOf)
    this.starts = grown(this.starts)
    this.setsAt = grown(this.setsAt)
    this.branches = grown(this.branches)
  }
}

const FIRST_FRAMES = 1_024

function grown(old: Int32Array): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(old.length * 2)
  wider.set(old)
  return wider
}

const HAS_MEMORY_INDEX = 0x40

/** The type of a block, as a number with a sign. */
const NO_RESULT = -0x40

/** What has opened a block. */
const [BLOCK, LOOP, IF, TRY, CATCH, TRY_TABLE] = [1, 2, 3, 4, 5, 6]

/** Marks a block in a place that cannot be reached. */
const OUTER_UNREACHABLE = 0x40

/** @param code - As a number with a sign: -16 is `func`. */
function isHeapType(code: number): boolean {
  return HEAP_TYPES.has(code)
}

function isCollectedHeapType(code: number): boolean {
  return COLLECTED_HEAP_TYPES.has(code)
}

function isNumberType(code: number): boolean {
  return code >= 0x7b && code <= 0x7f
}

const HEAP_TYPES: ReadonlySet<number> = new Set(
  [0x70, 0x6f, 0x69, 0x72, 0x73, 0x74].map((code) => code - 0x80),
)
const COLLECTED_HEAP_TYPES: ReadonlySet<number> = new Set(
  [0x6e, 0x6d, 0x6c, 0x6b, 0x6a, 0x71].map((code) => code - 0x80),
)
