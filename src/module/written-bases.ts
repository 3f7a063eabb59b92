import type { Instruction } from './code-rewriter.ts'
import { ACTION, ACTION_OF, CODE, POPS, PUSHES } from './instructions.ts'

/*
 * Most writes of a function go to a few bases: its frame on the stack, and structures to which it has pointers. Where an earlier
 * write to the same base has been recorded on every way to here, another one near it need not be.
 */

/** A write that was recorded: the address of a local, and an offset. */
interface Written {
  readonly offset: number
  /** Number of blocks around it. */
  readonly depth: number
}

/** A value that no local has. */
const OTHER = -1

/** Follows the code of a function, and knows which locals hold addresses at which writes were recorded. */
export class WrittenBases {
  /** Whether a write at one offset is known if another one was recorded at the same address. */
  readonly #covers: (recorded: number, offset: number) => boolean
  /** For values on the stack of operands, as far as they are known, the locals that have the same ones. */
  #stack: number[] = []
  readonly #written = new Map<number, Written[]>()
  #depth = 0
  /** How often each local is still set in the rest of the code. */
  #sets = new Map<number, number>()

  constructor(covers: (recorded: number, offset: number) => boolean) {
    this.#covers = covers
  }

  /** A function begins. @param sets - How often it sets each local. */
  begin(sets: ReadonlyMap<number, number>): void {
    this.#stack = []
    this.#written.clear()
    this.#depth = 0
    this.#sets = new Map(sets)
  }

  /** @returns whether a write of a value at this offset is known. If not, it will be recorded. */
  knows(offset: number): boolean {
    const base = this.#stack.at(-2) ?? OTHER
    if (base === OTHER) return false
    const written = this.#written.get(base) ?? []
    if (written.some((each) => this.#covers(each.offset, offset))) return true
    this.#written.set(base, [...written, { offset, depth: this.#depth }])
    return false
  }

  /** Passes an instruction. */
  pass(instruction: Instruction): void {
    const { code } = instruction
    const action = ACTION_OF[code]
    switch (action) {
      case ACTION.block:
      case ACTION.if:
      case ACTION.try:
      case ACTION.tryTable:
      case ACTION.loop:
        this.#stack = []
        this.#depth++
        // What is set in the loop is so when it begins again.
        if (action === ACTION.loop)
          for (const [local, left] of this.#sets) if (left > 0) this.#written.delete(local)
        break
      case ACTION.else:
      case ACTION.catch:
      case ACTION.catchAll:
        this.#leave()
        break
      case ACTION.end:
      case ACTION.delegate:
        this.#leave()
        this.#depth--
        break
      case ACTION.set: {
        const local = instruction.immediates().u32()
        this.#stack.pop()
        this.#set(local)
        if (code === CODE.localTee) this.#stack.push(local)
        break
      }
      case ACTION.nothing:
      case ACTION.number:
      case ACTION.numbers:
      case ACTION.bytes4:
      case ACTION.bytes8:
      case ACTION.bytes16:
      case ACTION.lane:
      case ACTION.access:
      case ACTION.accessLane:
      case ACTION.select:
      case ACTION.branchIf:
        this.#replace(POPS[code] ?? 0, PUSHES[code] ?? 0)
        if (code === CODE.localGet) this.#stack[this.#stack.length - 1] = instruction.immediates().u32()
        break
      default:
        this.#stack = []
    }
  }

  /** The code that follows may be reached without that of the block. */
  #leave(): void {
    this.#stack = []
    for (const [local, written] of this.#written) {
      const left = written.filter(({ depth }) => depth < this.#depth)
      if (left.length < written.length) this.#written.set(local, left)
    }
  }

  #set(local: number): void {
    this.#sets.set(local, (this.#sets.get(local) ?? 1) - 1)
    this.#written.delete(local)
    this.#stack = this.#stack.map((each) => (each === local ? OTHER : each))
  }

  #replace(pops: number, pushes: number): void {
    this.#stack.length = Math.max(this.#stack.length - pops, 0)
    for (let left = pushes; left > 0; left--) this.#stack.push(OTHER)
  }
}
