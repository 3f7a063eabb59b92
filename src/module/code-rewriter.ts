import { ByteReader, concat, leb } from './bytes.ts'
import { type BodyFigures, BodyReader } from './function-body.ts'
import { ACTION, ACTION_OF, CODE, constant, NO_RESULT, readCode, skipImmediates } from './instructions.ts'
import type { FigureCounter } from './limits.ts'
import { countImported, type FunctionBodies, type ModuleView, SECTION } from './module-view.ts'
import { I32, readValueType } from './types.ts'

/** A module with parsed code. */
type ReadView = ModuleView & { readonly bodies: FunctionBodies }

/** An instruction of a module's code. Valid until the next one: a module has millions, so the object is reused. */
export interface Instruction {
  /** See `CODE`. */
  readonly code: number
  /** The offset of its first byte in the module. */
  readonly at: number
  /** The bytes of the instruction. */
  readonly bytes: Uint8Array
  /** Positioned after the opcode. */
  immediates(): ByteReader
}

/** Allocates locals for inserted code. */
export interface Temporaries {
  /**
   * @param type - The type of its value.
   * @param place - Distinguishes locals of the same type.
   * @returns its index. Other inserted code gets the same local: the value lasts only as long as the code.
   */
  local(type: number, place?: number): number
}

/** Added to the opcode of an `if` in a replacement: V8 keeps what is rarely executed out of the way. */
export const RARELY = 0x100

/** The replacement of an instruction: code, the instruction itself (`undefined`), or impossible (`null`). */
export type Rewrite = (
  instruction: Instruction,
  temporaries: Temporaries,
) => readonly number[] | undefined | null

/** Rewrites the functions of a module, one after another. */
export interface Rewriter {
  /**
   * A function begins.
   *
   * @param called - Indices of the functions that it calls directly.
   * @param place - Its index among the functions that the module defines.
   * @param sets - How often it sets each local.
   */
  begin?(called: ReadonlySet<number>, place: number, sets: ReadonlyMap<number, number>): void
  readonly rewrite: Rewrite
}

/** A function's encoded locals and instructions. */
export interface Body {
  readonly bytes: Uint8Array
  /** See {@link FunctionBodies}. */
  readonly rare: readonly number[]
}

/** The figures of a function that was rewritten. */
type ChangedBody = Pick<BodyFigures, 'work' | 'callValues' | 'optimisingCost'> & { readonly locals: number }

/** The code of a module that was rewritten. */
export interface RewrittenCode {
  /** The contents of its sections. */
  readonly contents: readonly (readonly [id: number, content: Uint8Array])[]
  /** Figures of the functions that changed. */
  readonly changed: ReadonlyMap<number, ChangedBody>
  readonly rare: FunctionBodies['rare']
}

/**
 * Rewrites the code of a module. Branches name blocks, not positions, so any instruction can be replaced by other code.
 *
 * @param rewriters - For each instruction, the first replacement applies.
 * @param isWanted - Whether a function may change, by its index among those that the module defines: see {@link hasMarks}.
 * @param counter - Holds the figures of the module; updated with those of the new functions.
 * @param added - Bodies of further functions.
 * @returns undefined if an instruction has no possible replacement.
 * @throws {@link PluginTooComplexError} if a new function exceeds a limit.
 */
export function rewriteCode(
  view: ReadView,
  isWanted: (place: number) => boolean,
  rewriters: readonly Rewriter[],
  counter: FigureCounter,
  added: readonly Body[] = [],
): RewrittenCode | undefined {
  const { bytes, bodies } = view
  const { count, starts, ends } = bodies
  const rewriter = new BodyRewriter(view, rewriters, counter)
  const parts = [leb(count + added.length)]
  const rare = new Map(bodies.rare)
  let size = 0
  for (let place = 0; place < count + added.length; place++) {
    const isOld = place < count && !isWanted(place)
    const body = place < count ? (isOld ? undefined : rewriter.rewrite(place)) : added[place - count]
    if (!body && !isOld) return undefined
    if (body && place >= count) rewriter.countAdded(place, body.bytes)
    if (body && body.rare.length > 0) rare.set(place, body.rare)
    const code = body?.bytes ?? bytes.subarray(starts[place], ends[place])
    const length = leb(code.length)
    parts.push(length, code)
    size += length.length + code.length
  }
  counter.found('codeBytes', size, 'the code')
  counter.finish()
  const contents: [id: number, content: Uint8Array][] = [[SECTION.code, concat(parts)]]
  if (rare.size > 0) contents.push([SECTION.hints, renderHints(rare, countImported(view, 'function'))])
  return { contents, changed: rewriter.changed, rare }
}

/** The content of a custom section: those instructions branch rarely. */
function renderHints(rare: FunctionBodies['rare'], imported: number): Uint8Array {
  const functions = [...rare].sort(([a], [b]) => a - b)
  const hints = functions.map(([place, offsets]) =>
    concat([
      leb(imported + place),
      leb(offsets.length),
      ...offsets.map((offset) => concat([leb(offset), ONE_BYTE, RARE])),
    ]),
  )
  return concat([leb(functions.length), ...hints])
}

const ONE_BYTE = Uint8Array.of(1)
const RARE = Uint8Array.of(0)

/** Selects the functions that have one of these bits of `MARK`. */
export function hasMarks({ marks }: FunctionBodies, wanted: number): (place: number) => boolean {
  return (place) => ((marks[place] ?? 0) & wanted) !== 0
}

class BodyRewriter {
  readonly #view: ReadView
  readonly #rewriters: readonly Rewriter[]
  readonly #counter: FigureCounter
  readonly changed = new Map<number, ChangedBody>()
  readonly #imported: number
  readonly #reader: ByteReader
  readonly #instruction: CurrentInstruction
  readonly #bodyReader: BodyReader

  constructor(view: ReadView, rewriters: readonly Rewriter[], counter: FigureCounter) {
    const { bytes, name } = view
    this.#view = view
    this.#rewriters = rewriters
    this.#counter = counter
    this.#imported = countImported(view, 'function')
    this.#reader = new ByteReader(bytes, 0, bytes.length, name)
    this.#instruction = new CurrentInstruction(view)
    this.#bodyReader = new BodyReader({ ...view, imported: this.#imported }, this.#reader)
  }

  /**
   * @param place - Index among the functions that the module defines.
   * @returns its new body; undefined if an instruction has no possible replacement.
   */
  rewrite(place: number): Body | undefined {
    const { bytes, bodies } = this.#view
    const end = bodies.ends[place] ?? 0
    const added = new AddedLocals(bodies.locals[place] ?? 0)
    const reader = this.#reader
    const instruction = this.#instruction
    reader.at = bodies.starts[place] ?? 0
    const groups = reader.u32()
    const locals = reader.at
    for (let left = groups; left > 0; left--) skipLocals(reader)
    const behindLocals = reader.at
    this.#begin(reader, place, end)
    const parts: Uint8Array[] = []
    const start = bodies.starts[place] ?? 0
    const oldRare = bodies.rare.get(place) ?? []
    let nextRare = 0
    const rare: number[] = []
    let length = 0
    let copied = behindLocals
    while (reader.at < end) {
      const at = reader.at
      const isRare = oldRare[nextRare] === at - start
      if (isRare) {
        nextRare++
        rare.push(length + at - copied)
      }
      const code = readCode(reader)
      const immediates = reader.at
      skipImmediates(reader, code)
      instruction.become(code, at, immediates, reader.at)
      const other = this.#replacement(added)
      if (other === null) return undefined
      if (!other) continue
      parts.push(bytes.subarray(copied, at), Uint8Array.from(other))
      length += at - copied
      for (const [offset, byte] of other.entries()) if (byte >= RARELY) rare.push(length + offset)
      length += other.length
      copied = reader.at
    }
    const head = concat([
      leb(groups + added.types.length),
      bytes.subarray(locals, behindLocals),
      ...added.types.map((type) => Uint8Array.of(1, type)),
    ])
    const body = concat([head, ...parts, bytes.subarray(copied, end)])
    this.#count(place, body, bodies.locals[place] ?? 0, added.types.length)
    return { bytes: body, rare: rare.map((offset) => head.length + offset) }
  }

  /** Reads the instructions once in advance, if a rewriter needs to know which functions they call, or which locals they set. */
  #begin(reader: ByteReader, place: number, end: number): void {
    if (!this.#rewriters.some(({ begin }) => begin)) return
    const start = reader.at
    const called = new Set<number>()
    const sets = new Map<number, number>()
    while (reader.at < end) {
      const code = readCode(reader)
      const immediates = reader.at
      skipImmediates(reader, code)
      const isSet = ACTION_OF[code] === ACTION.set
      if (code !== CODE.call && !isSet) continue
      const behind = reader.at
      reader.at = immediates
      const index = reader.u32()
      if (isSet) sets.set(index, (sets.get(index) ?? 0) + 1)
      else called.add(index)
      reader.at = behind
    }
    reader.at = start
    for (const rewriter of this.#rewriters) rewriter.begin?.(called, place, sets)
  }

  #replacement(added: AddedLocals): ReturnType<Rewrite> {
    for (const rewriter of this.#rewriters) {
      const other = rewriter.rewrite(this.#instruction, added)
      if (other !== undefined) return other
    }
    return undefined
  }

  /** Counts the compilation cost of a function that the module did not have. */
  countAdded(place: number, body: Uint8Array): void {
    const { name, functions, types } = this.#view
    const reader = new ByteReader(body, 0, body.length, name)
    let locals = types.params(functions[this.#imported + place] ?? -1)
    for (let groups = reader.u32(); groups > 0; groups--) locals += skipLocals(reader)
    this.#count(place, body, 0, locals)
  }

  /**
   * Replaces the compilation cost of the old body with that of the new one.
   *
   * @param old - Number of locals before the rewriting.
   * @param added - Number of locals that the rewriting added.
   */
  #count(place: number, body: Uint8Array, old: number, added: number): void {
    const { name, bodies, functions, types } = this.#view
    const index = this.#imported + place
    const where = `function ${index}`
    const locals = old + added
    this.#counter.found('functionBytes', body.length, where)
    this.#counter.found('locals', locals, where)
    this.#counter.count('allLocals', added, where)
    const reader = new ByteReader(body, 0, body.length, name)
    for (let groups = reader.u32(); groups > 0; groups--) skipLocals(reader)
    this.#bodyReader.read(reader, locals, types.results(functions[index] ?? -1))
    const { callValues, work, optimisingCost } = this.#bodyReader
    this.changed.set(place, { locals, work, callValues, optimisingCost })
    this.#bodyReader.count(this.#counter, where, {
      work: bodies.work[place] ?? 0,
      optimisingCost: bodies.optimisingCost[place] ?? 0,
      callValues: bodies.callValues[place] ?? 0,
    })
  }
}

/** Skips a group of locals. @returns their number. */
function skipLocals(reader: ByteReader): number {
  const count = reader.u32()
  readValueType(reader)
  return count
}

class CurrentInstruction implements Instruction {
  code = 0
  at = 0
  readonly #module: Uint8Array
  readonly #reader: ByteReader
  #immediates = 0
  #end = 0

  constructor({ bytes, name }: ModuleView) {
    this.#module = bytes
    this.#reader = new ByteReader(bytes, 0, bytes.length, name)
  }

  become(code: number, at: number, immediates: number, end: number): void {
    this.code = code
    this.at = at
    this.#immediates = immediates
    this.#end = end
  }

  get bytes(): Uint8Array {
    return this.#module.subarray(this.at, this.#end)
  }

  immediates(): ByteReader {
    this.#reader.at = this.#immediates
    return this.#reader
  }
}

class AddedLocals implements Temporaries {
  readonly types: number[] = []
  readonly #first: number
  readonly #places = new Map<string, number>()

  constructor(first: number) {
    this.#first = first
  }

  local(type: number, place = 0): number {
    const key = `${type} ${place}`
    const known = this.#places.get(key)
    if (known !== undefined) return known
    const index = this.#first + this.types.push(type) - 1
    this.#places.set(key, index)
    return index
  }
}

/** Globals in which a module counts the pages of its memory. */
interface PageGlobals {
  /** The number of pages visible to the module. */
  readonly pages: number
  /** Temporary value during a growth. */
  readonly more: number
}

/**
 * Makes a module count the pages of its memory, so that a grown memory can be reused: a memory cannot shrink.
 * `memory.size` and `memory.grow` return the same as for a new memory, and the real one grows only if it is too small.
 *
 * One thing differs: an access beyond the visible end, but within the real memory, does not trap.
 *
 * @param maximum - Maximum number of pages.
 */
export function countPages(globals: PageGlobals, maximum: number): Rewrite {
  const size = [CODE.globalGet, ...leb(globals.pages)]
  const grow = growCode(globals, maximum)
  let left = MAX_SIZE_INSTRUCTIONS
  return ({ code }) => {
    if (code !== CODE.memorySize && code !== CODE.memoryGrow) return undefined
    if (left-- === 0) return null
    return code === CODE.memorySize ? size : grow
  }
}

/** Allocators have a handful. The limit bounds the size of the rewritten module. */
const MAX_SIZE_INSTRUCTIONS = 1_000

/** The replacement of `memory.grow`: code, not a call, so that no function and no type has to be added. */
function growCode(globals: PageGlobals, maximum: number): readonly number[] {
  const { block, if: when, end, branchIf, drop, globalGet, globalSet } = CODE
  const { memorySize, memoryGrow, add, subtract, equal, greaterUnsigned } = CODE
  const [pages, more] = [leb(globals.pages), leb(globals.more)]
  const [getPages, getMore, real] = [
    [globalGet, ...pages],
    [globalGet, ...more],
    [memorySize, 0],
  ]
  const wanted = [...getPages, ...getMore, add]
  const refusal = constant(-1)
  return [
    ...[globalSet, ...more],
    ...[block, I32, ...refusal],
    // if more > maximum - pages: -1
    ...[...getMore, ...constant(maximum), ...getPages, subtract, greaterUnsigned, branchIf, 0],
    // if wanted > real: if memory.grow(wanted - real) == -1: -1
    ...[...wanted, ...real, greaterUnsigned, when, NO_RESULT, ...refusal],
    ...[...wanted, ...real, subtract, memoryGrow, 0, ...refusal, equal, branchIf, 1],
    ...[drop, end, drop],
    // the old number of pages
    ...[...getPages, ...wanted, globalSet, ...pages, end],
  ]
}
