import { PluginTooComplexError } from '../errors/errors.ts'
import { ByteReader, leb } from './bytes.ts'
import {
  type Checkpoints,
  findCheckpoints,
  type LoopCheck,
  MAX_UNITS,
  type TurnCheck,
} from './checkpoints.ts'
import {
  type Body,
  hasMarks,
  type Instruction,
  RARELY,
  type Rewriter,
  rewriteCode,
  type Temporaries,
} from './code-rewriter.ts'
import { ACTION, ACTION_OF, CODE, constant, MARK, NO_RESULT, readCode } from './instructions.ts'
import { FigureCounter } from './limits.ts'
import { countImported, type ModuleView, SECTION, SIZE_FLAGS, startFunction } from './module-view.ts'
import { appendItems, renderExport, type SectionContents, withContents } from './module-writer.ts'
import { CHECK_EXPORT } from './names.ts'
import { withCode } from './rewritten-view.ts'
import { IN_BYTES, LengthChecker } from './terminable.ts'
import { FUNCTION_FORM, I32, I64, numberType, sharedTypeKey } from './types.ts'

/*
 * A guest on the event loop blocks the only thread that could stop it. So guests stop themselves: where `checkpoints.ts`
 * says, they count, and when they have counted enough they call a function of the host, which traps if another thread has
 * asked for that. No guest can catch a trap.
 *
 * That function is in a table of its own, which the host fills: an imported function, table or memory would change the
 * indices of all others. Until then it does nothing. V8 knows by branch hints that the calls are rare: otherwise it would
 * keep the values of a loop on the stack.
 */

/** Binary logarithms of the units of bulk instructions. An entry of a table takes a microsecond in Node.js 24. */
const UNITS = { bytes: 10, entries: 3 } as const

const FUNCREF = 0x70

/**
 * Makes a module whose guests can be interrupted: their host sets the entry of {@link CHECK_EXPORT}.table.
 *
 * @param view - With parsed code.
 * @returns undefined if that is impossible: it needs a separate process, it waits for other threads, it exports reserved names,
 * it is not valid, or its code would exceed a limit.
 */
export function makeInterruptible(view: ModuleView): ModuleView | undefined {
  const { name, bodies, needsProcess, exports } = view
  if (!bodies || needsProcess !== undefined) return undefined
  if (bodies.marks.some((marks) => marks & MARK.waits)) return undefined // no check is in time
  if (exports.some(({ name }) => Object.values<string>(CHECK_EXPORT).includes(name))) return undefined
  // Otherwise its code could use the added locals, globals and tables by their indices.
  if (!WebAssembly.validate(view.bytes as Uint8Array<ArrayBuffer>)) return undefined
  const added = new AddedItems(view)
  const extended = { ...added.view, bodies }
  const checkpoints = findCheckpoints({ ...view, bodies })
  const hasBulk = hasMarks(bodies, MARK.bulk)
  const isWanted = (place: number) =>
    hasBulk(place) || checkpoints.atEntry(place) > 0 || checkpoints.loopsOf(place).length > 0
  const rewriters = [
    new LengthChecker(view, (code, isLong) => added.countLength(code, isLong)), // has to see all instructions
    new CheckInserter(view, checkpoints, added),
  ]
  const counter = new FigureCounter(view.limits, name, view.figures)
  try {
    const code = rewriteCode(extended, isWanted, rewriters, counter, added.bodies)
    if (!code) return undefined
    const bytes = withContents(view, new Map([...added.contents, ...code.contents]))
    counter.found('moduleBytes', bytes.length, 'the module')
    return withCode({ ...extended, figures: counter.figures, isValid: true }, bytes, code)
  } catch (error) {
    if (error instanceof PluginTooComplexError) return undefined
    throw error
  }
}

/** What a module gets besides the code in its functions. All of it is behind the items of the same kind. */
class AddedItems {
  /** The view of the module with the items, but with the old code. */
  readonly view: ModuleView
  readonly bodies: readonly Body[]
  readonly contents: SectionContents
  readonly #counter: readonly number[]
  readonly #firstFunction: number

  constructor(view: ModuleView) {
    const { types, functions, globals, tables, hostExports, indexTypes, processTypes } = view
    const counter = countImported(view, 'global') + globals.length
    const table = countImported(view, 'table') + tables.length
    const firstType = types.count
    const signatures = [[], [I32], [I64]].map((codes) =>
      Uint8Array.of(FUNCTION_FORM, codes.length, ...codes, codes.length, ...codes),
    )
    const addedTypes = [[], [numberType(I32)], [numberType(I64)]].map((all) => ({
      params: all,
      results: all,
    }))
    this.#counter = [...leb(counter)]
    this.#firstFunction = functions.length
    const placed = [
      { type: 0, body: this.#renderCheck(firstType, table) },
      { type: 0, body: { bytes: Uint8Array.of(0, CODE.end), rare: [] } },
      ...LENGTHS.map(({ type, unit }) => ({
        type: type === I32 ? 1 : 2,
        body: this.#renderLength(type, unit),
      })),
    ]
    const start = startFunction(view)
    const exported = [
      renderExport(CHECK_EXPORT.table, 'table', table),
      renderExport(CHECK_EXPORT.counter, 'global', counter),
    ]
    if (start !== undefined) exported.push(renderExport(CHECK_EXPORT.start, 'function', start))
    const typeIndices = placed.map(({ type }) => firstType + type)
    this.bodies = placed.map(({ body }) => body)
    this.view = {
      ...view,
      types: types.with(addedTypes),
      functions: [...functions, ...typeIndices],
      hostExports: [...hostExports, ...exported],
      globals: [...globals, { type: numberType(I32), isMutable: true }],
      tables: [
        ...tables,
        { flags: SIZE_FLAGS.max, min: 1n, max: 1n, type: Uint8Array.of(FUNCREF), value: new Uint8Array() },
      ],
      indexTypes: { ...indexTypes, tables: [...indexTypes.tables, I32] },
      processTypes: {
        ...processTypes,
        shared: [...new Set([...processTypes.shared, ...signatures.map(sharedTypeKey)])],
      },
    }
    const append = (id: number, ...items: Uint8Array[]) => [id, appendItems(view, id, items)] as const
    const nothing = leb(this.#firstFunction + NOTHING)
    this.contents = new Map([
      append(SECTION.type, ...signatures),
      append(SECTION.function, ...typeIndices.map(leb)),
      append(SECTION.table, Uint8Array.of(FUNCREF, SIZE_FLAGS.max, 1, 1)),
      append(SECTION.global, Uint8Array.of(I32, 1, CODE.constant, 0, CODE.end)),
      append(SECTION.export, ...exported),
      append(
        SECTION.element,
        Uint8Array.of(IN_TABLE, ...leb(table), CODE.constant, 0, CODE.end, 0, 1, ...nothing),
      ),
      ...(start === undefined ? [] : [[SECTION.start, nothing] as const]),
    ])
  }

  /** Code that counts so many units, and checks when enough are counted. */
  count(units: number, temporaries: Temporaries): readonly number[] {
    return this.#addToCounter(constant(units), temporaries.local(I32, COUNT_LOCAL))
  }

  /** Code that checks. */
  get check(): readonly number[] {
    return [CODE.call, ...leb(this.#firstFunction + CHECK)]
  }

  /** The function that takes, counts and returns the length of a bulk instruction. */
  countLength(code: number, isLong: boolean): number {
    const unit = IN_BYTES.has(code) ? UNITS.bytes : UNITS.entries
    const place = LENGTHS.findIndex((each) => each.unit === unit && each.type === (isLong ? I64 : I32))
    return this.#firstFunction + FIRST_LENGTH + place
  }

  #addToCounter(more: readonly number[], local: number): readonly number[] {
    const count = leb(local)
    return [
      ...[CODE.globalGet, ...this.#counter, ...more, CODE.add],
      ...[CODE.localTee, ...count, CODE.globalSet, ...this.#counter],
      ...[CODE.localGet, ...count, ...constant(MAX_UNITS - 1), CODE.greaterUnsigned],
      ...[CODE.if | RARELY, NO_RESULT, ...this.check, CODE.end],
    ]
  }

  #renderCheck(type: number, table: number): Body {
    const reset = [CODE.constant, 0, CODE.globalSet, ...this.#counter]
    const call = [CODE.constant, 0, CODE.callIndirect, ...leb(type), ...leb(table)]
    const padding = Array.from({ length: MAX_INLINED_BYTES }, () => CODE.nop)
    return { bytes: Uint8Array.from([0, ...padding, ...reset, ...call, CODE.end]), rare: [] }
  }

  #renderLength(type: number, unit: number): Body {
    const units =
      type === I32
        ? [CODE.localGet, 0, ...constant(unit), CODE.shiftRightUnsigned]
        : // At most 31 bits: the sum must not wrap around to a small one.
          [
            ...[CODE.localGet, 0, CODE.constant64, unit - 1, CODE.shiftRightUnsigned64, CODE.wrap64],
            ...[CODE.constant, 1, CODE.shiftRightUnsigned],
          ]
    const locals = [1, 1, I32]
    const code = [...locals, ...this.#addToCounter(units, 1), CODE.localGet, 0, CODE.end]
    return { bytes: Uint8Array.from(code), rare: [code.findIndex((byte) => byte >= RARELY)] }
  }
}

/** Places of the functions. */
const CHECK = 0
const NOTHING = 1
const FIRST_LENGTH = 2

const LENGTHS = [
  { type: I32, unit: UNITS.bytes },
  { type: I32, unit: UNITS.entries },
  { type: I64, unit: UNITS.bytes },
  { type: I64, unit: UNITS.entries },
] as const

/** V8 inlines no function with more bytes. It would inline the check into each loop, although it is rarely called. */
const MAX_INLINED_BYTES = 500

/** Temporary locals: one for the count, and one for each number of turns. Other code uses lower places. */
const COUNT_LOCAL = 64
const TURNS_LOCAL = 64

/** An element segment that names its table. */
const IN_TABLE = 2

/**
 * Whether an inner loop calls the check from outside of it, in a loop around it. V8 does not unroll loops with calls before
 * version 13: a sum of bytes takes 1.5 times as long in Node.js 20 with a call in its loop. In later ones the loop around costs more.
 */
const CALLS_OUTSIDE = Number.parseInt(process.versions.v8, 10) < 13

/** Inserts checks into loops and at the entry of functions. */
class CheckInserter implements Rewriter {
  readonly #reader: ByteReader
  readonly #checkpoints: Checkpoints
  readonly #added: AddedItems
  #loops: readonly (LoopCheck | undefined)[] = []
  /** By the offset of a branch. */
  #branches: ReadonlyMap<number, LoopCheck> = new Map()
  #nextLoop = 0
  #entry = 0
  /** The loop that calls the check from outside of it, and in which the next instruction is. */
  #inner: { readonly end: number; depth: number } | undefined

  constructor({ bytes, name }: ModuleView, checkpoints: Checkpoints, added: AddedItems) {
    this.#reader = new ByteReader(bytes, 0, bytes.length, name)
    this.#checkpoints = checkpoints
    this.#added = added
  }

  begin(_called: ReadonlySet<number>, place: number): void {
    this.#loops = this.#checkpoints.loopsOf(place)
    this.#branches = new Map(
      this.#loops.flatMap((loop) => loop?.branches.map((at) => [at, loop] as const) ?? []),
    )
    this.#nextLoop = 0
    this.#entry = this.#checkpoints.atEntry(place)
  }

  rewrite(instruction: Instruction, temporaries: Temporaries): readonly number[] | undefined {
    const atEntry = this.#entry > 0 ? this.#added.count(this.#entry, temporaries) : undefined
    this.#entry = 0
    const other = this.#rewrite(instruction, temporaries)
    return atEntry ? [...atEntry, ...(other ?? instruction.bytes)] : other
  }

  #rewrite(instruction: Instruction, temporaries: Temporaries): readonly number[] | undefined {
    if (ACTION_OF[instruction.code] === ACTION.loop) {
      const loop = this.#loops[this.#nextLoop++]
      return loop && this.#beginLoop(loop, instruction, temporaries)
    }
    const loop = this.#branches.get(instruction.at)
    if (loop) return this.#branch(loop, instruction, temporaries)
    return this.#inner && this.#moveInner(this.#inner, instruction)
  }

  #beginLoop(
    { when, branches, end }: LoopCheck,
    { bytes }: Instruction,
    temporaries: Temporaries,
  ): readonly number[] | undefined {
    if (branches.length === 0) return [...bytes, ...this.#checkHere(when, temporaries)]
    if (!CALLS_OUTSIDE || end === undefined) return undefined
    this.#inner = { end, depth: 0 }
    return [...block(CODE.block), ...block(CODE.loop), ...block(CODE.block), ...bytes]
  }

  /** Checks before a branch to the start of the loop. */
  #branch({ when, end }: LoopCheck, instruction: Instruction, temporaries: Temporaries): readonly number[] {
    const label = this.#moved(instruction.immediates().u32())
    const isConditional = instruction.code === CODE.branchIf
    const loop = isConditional ? label + 1 : label
    const check =
      CALLS_OUTSIDE && end !== undefined && !('units' in when)
        ? [...this.#isTime(when, temporaries), CODE.branchIf | RARELY, ...leb(loop + 1)]
        : this.#checkHere(when, temporaries)
    const again = [...check, CODE.branch, ...leb(loop)]
    return isConditional ? [...block(CODE.if), ...again, CODE.end] : again
  }

  /** Rewrites an instruction in a loop around which there are three more blocks. */
  #moveInner(
    inner: { readonly end: number; depth: number },
    { code, at, bytes }: Instruction,
  ): readonly number[] | undefined {
    const reader = this.#reader
    const label = () => leb(this.#moved(reader.u32()))
    reader.at = at
    switch (ACTION_OF[readCode(reader)]) {
      case ACTION.block:
      case ACTION.if:
        inner.depth++
        return undefined
      case ACTION.end:
        inner.depth--
        if (at !== inner.end) return undefined
        this.#inner = undefined
        // Past the block around all; the end of the block that branches leave; again; the ends of both.
        return [...bytes, CODE.branch, 2, CODE.end, ...this.#added.check, CODE.branch, 0, CODE.end, CODE.end]
      case ACTION.branch:
      case ACTION.branchIf:
        return [code, ...label()]
      case ACTION.branchTable: {
        const targets = reader.u32()
        return [code, ...leb(targets), ...Array.from({ length: targets + 1 }, () => [...label()]).flat()]
      }
      default:
        return undefined
    }
  }

  /** The label of a branch, where it may be in a loop around which there are more blocks. */
  #moved(label: number): number {
    return this.#inner && label > this.#inner.depth ? label + BLOCKS : label
  }

  #checkHere(when: TurnCheck, temporaries: Temporaries): readonly number[] {
    if ('units' in when) return this.#added.count(when.units, temporaries)
    return [
      ...this.#isTime(when, temporaries),
      ...[CODE.if | RARELY, NO_RESULT, ...this.#added.check, CODE.end],
    ]
  }

  /** V8 has one instruction that tests whether a number has no bit of a mask. */
  #isTime(when: Exclude<TurnCheck, { units: number }>, temporaries: Temporaries): readonly number[] {
    const isNone = (mask: number) => [...constant(mask), CODE.and, CODE.equalZero]
    if ('mask' in when) return [CODE.localGet, ...leb(when.local), ...isNone(when.mask)]
    const turns = leb(temporaries.local(I32, TURNS_LOCAL + when.turns))
    const next = [CODE.localGet, ...turns, ...constant(1), CODE.add, CODE.localTee, ...turns]
    return [...next, ...isNone(when.turns - 1)]
  }
}

/** Number of blocks around a loop that calls the check from outside of it. */
const BLOCKS = 3

const block = (code: number): readonly number[] => [code, NO_RESULT]
