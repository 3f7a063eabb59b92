import { ByteReader, concat, leb } from './bytes.ts'
import { BodyReader } from './function-body.ts'
import { readCode, skipImmediates } from './instructions.ts'
import type { FigureCounter } from './limits.ts'
import type { FunctionBodies, ModuleView } from './module-view.ts'
import { readValueType } from './types.ts'

/** A module whose code was read. */
type ReadView = ModuleView & { readonly bodies: FunctionBodies }

/** An instruction of a module's code. Valid until the next one: a module has millions, so the object is used again. */
export interface Instruction {
  /** See `CODE`. */
  readonly code: number
  /** All of it. */
  readonly bytes: Uint8Array
  /** Stands behind the opcode. */
  immediates(): ByteReader
}

/** Gives locals to the code that is put into a function. */
export interface Temporaries {
  /**
   * @param type - Of its value.
   * @param place - Another one of the same type.
   * @returns its index. The same one is given to other code: its value lasts as long as the code.
   */
  local(type: number, place?: number): number
}

/** What stands for an instruction: other code, itself (`undefined`), or nothing could (`null`). */
export type Rewrite = (
  instruction: Instruction,
  temporaries: Temporaries,
) => readonly number[] | undefined | null

/**
 * Rewrites the code of a module. Branches name blocks, not places, so that other code may stand for any instruction.
 *
 * @param wanted - Bits of `MARK`: functions without them are as they were.
 * @param counter - Has the figures of the module, and gets those of its new functions.
 * @returns the content of the section; undefined if nothing could stand for an instruction.
 * @throws {@link PluginTooComplexError} if a new function is beyond a limit.
 */
export function rewriteCode(
  view: ReadView,
  wanted: number,
  rewrite: Rewrite,
  counter: FigureCounter,
): Uint8Array | undefined {
  const { bytes, bodies } = view
  const { count, starts, ends, marks } = bodies
  const rewriter = new BodyRewriter(view, rewrite, counter)
  const parts = [leb(count)]
  let size = 0
  for (let place = 0; place < count; place++) {
    const isWanted = ((marks[place] ?? 0) & wanted) !== 0
    const body = isWanted ? rewriter.rewrite(place) : bytes.subarray(starts[place], ends[place])
    if (!body) return undefined
    const length = leb(body.length)
    parts.push(length, body)
    size += length.length + body.length
  }
  counter.found('codeBytes', size, 'the code')
  return concat(parts)
}

class BodyRewriter {
  readonly #view: ReadView
  readonly #rewrite: Rewrite
  readonly #counter: FigureCounter
  readonly #imported: number
  readonly #reader: ByteReader
  readonly #instruction: CurrentInstruction
  readonly #bodyReader: BodyReader

  constructor(view: ReadView, rewrite: Rewrite, counter: FigureCounter) {
    const { bytes, name, functions, bodies } = view
    this.#view = view
    this.#rewrite = rewrite
    this.#counter = counter
    this.#imported = functions.length - bodies.count
    this.#reader = new ByteReader(bytes, 0, bytes.length, name)
    this.#instruction = new CurrentInstruction(view)
    this.#bodyReader = new BodyReader(view, this.#reader)
  }

  /**
   * @param place - Of the function among those that the module defines.
   * @returns its new body; undefined if nothing could stand for an instruction.
   */
  rewrite(place: number): Uint8Array | undefined {
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
    const parts: Uint8Array[] = []
    let copied = behindLocals
    while (reader.at < end) {
      const at = reader.at
      const code = readCode(reader)
      const immediates = reader.at
      skipImmediates(reader, code)
      instruction.become(code, at, immediates, reader.at)
      const other = this.#rewrite(instruction, added)
      if (other === null) return undefined
      if (!other) continue
      parts.push(bytes.subarray(copied, at), Uint8Array.from(other))
      copied = reader.at
    }
    const body = concat([
      leb(groups + added.types.length),
      bytes.subarray(locals, behindLocals),
      ...added.types.map((type) => Uint8Array.of(1, type)),
      ...parts,
      bytes.subarray(copied, end),
    ])
    this.#count(place, body, added.types.length)
    return body
  }

  /** Counts what the new body asks of the compiler, in place of what the old one did. */
  #count(place: number, body: Uint8Array, added: number): void {
    const { name, bodies, functions, types } = this.#view
    const index = this.#imported + place
    const where = `function ${index}`
    const locals = (bodies.locals[place] ?? 0) + added
    this.#counter.found('functionBytes', body.length, where)
    this.#counter.found('locals', locals, where)
    this.#counter.count('allLocals', added, where)
    const reader = new ByteReader(body, 0, body.length, name)
    for (let groups = reader.u32(); groups > 0; groups--) skipLocals(reader)
    this.#bodyReader.read(reader, locals, types.results(functions[index] ?? -1))
    // What it hands to and from calls is as before.
    const { callValues } = this.#bodyReader
    this.#bodyReader.count(this.#counter, where, { work: bodies.work[place] ?? 0, callValues })
  }
}

/** Goes past a group of locals. */
function skipLocals(reader: ByteReader): void {
  reader.u32()
  readValueType(reader)
}

class CurrentInstruction implements Instruction {
  code = 0
  readonly #module: Uint8Array
  readonly #reader: ByteReader
  #at = 0
  #immediates = 0
  #end = 0

  constructor({ bytes, name }: ModuleView) {
    this.#module = bytes
    this.#reader = new ByteReader(bytes, 0, bytes.length, name)
  }

  become(code: number, at: number, immediates: number, end: number): void {
    this.code = code
    this.#at = at
    this.#immediates = immediates
    this.#end = end
  }

  get bytes(): Uint8Array {
    return this.#module.subarray(this.#at, this.#end)
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
