import { concat, leb } from './binary.ts'
import { skipImmediates, skipLocals } from './instructions.ts'
import { Reader } from './module-reader.ts'

/** An instruction of a module's code. Good until the next one: a module has millions, so the object is used again. */
export interface Instruction {
  readonly opcode: number
  /** What follows the opcode if that is a prefix; else 0. */
  readonly operation: number
  /** All of it. */
  readonly bytes: Uint8Array
  /** Stands behind the opcode and the operation. */
  immediates(): Reader
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
 * Rewrites a code section. Branches name blocks, not places, so that other code may stand for any instruction.
 *
 * @param code - The section's content, of a module that the engine accepts.
 * @param params - How many parameters each function has.
 * @returns undefined if nothing could stand for an instruction, or one is not known.
 */
export function rewriteCode(
  code: Uint8Array,
  params: readonly number[],
  rewrite: Rewrite,
): Uint8Array | undefined {
  const reader = new Reader(code)
  const instruction = new CodeInstruction(code)
  const parts = [leb(reader.u32())]
  for (let index = 0; !reader.done; index++) {
    const end = reader.u32() + reader.at
    const body =
      end <= code.length && rewriteBody(code, reader, end, params[index] ?? 0, instruction, rewrite)
    if (!body) return undefined
    parts.push(leb(body.length), body)
  }
  return concat(parts)
}

/** @param reader - Stands at the function's locals; behind its end, if it is understood. */
function rewriteBody(
  code: Uint8Array,
  reader: Reader,
  end: number,
  params: number,
  instruction: CodeInstruction,
  rewrite: Rewrite,
): Uint8Array | undefined {
  const start = reader.at
  const locals = skipLocals(reader)
  if (locals === undefined) return undefined
  const behindLocals = reader.at
  const added = new AddedLocals(params + locals)
  const parts: Uint8Array[] = []
  let copied = reader.at
  while (reader.at < end) {
    const at = reader.at
    const opcode = reader.byte()
    if (!skipImmediates(reader, opcode)) return undefined
    instruction.become(opcode, at, reader.at)
    const other = rewrite(instruction, added)
    if (other === null) return undefined
    if (!other) continue
    parts.push(code.subarray(copied, at), Uint8Array.from(other))
    copied = reader.at
  }
  if (reader.at !== end) return undefined
  if (parts.length === 0) return code.subarray(start, end)
  const declared = new Reader(code, start)
  const groups = declared.u32()
  return concat([
    leb(groups + added.types.length),
    code.subarray(declared.at, behindLocals),
    ...added.types.map((type) => Uint8Array.of(1, type)),
    ...parts,
    code.subarray(copied, end),
  ])
}

/** Opcodes from here on are followed by the number of an operation. */
const FIRST_PREFIX = 0xfb

class CodeInstruction implements Instruction {
  opcode = 0
  operation = 0
  readonly #code: Uint8Array
  #at = 0
  #end = 0

  constructor(code: Uint8Array) {
    this.#code = code
  }

  become(opcode: number, at: number, end: number): void {
    this.opcode = opcode
    this.#at = at
    this.#end = end
    this.operation = opcode >= FIRST_PREFIX ? new Reader(this.#code, at + 1).u32() : 0
  }

  get bytes(): Uint8Array {
    return this.#code.subarray(this.#at, this.#end)
  }

  immediates(): Reader {
    const reader = new Reader(this.#code, this.#at + 1)
    if (this.opcode >= FIRST_PREFIX) reader.skipNumber()
    return reader
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
