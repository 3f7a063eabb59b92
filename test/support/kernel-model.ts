import { equal, ok } from 'node:assert/strict'
import type { KernelMemory } from '../../src/runtime/kernel-memory.ts'

export type Abi = Record<string, (...args: (bigint | number)[]) => bigint | number | undefined>

/** A block by number, from those that the call made, and how far from its beginning; or the offset itself. */
export type Place = bigint | { readonly block: number; readonly delta: number }

interface Block {
  readonly at: bigint
  readonly length: bigint
  live: boolean
}

/**
 * A model of the kernel: bytes are 0 until they are stored, blocks do not overlap, and accesses outside of blocks trap
 * or return data of this call. It does not predict the positions of blocks.
 */
export class KernelModel {
  readonly #memory: KernelMemory
  readonly #abi: Abi
  readonly #limit: number
  #blocks: Block[] = []
  #bytes = new Map<bigint, number>()
  #input: Uint8Array = new Uint8Array()
  #inputAt = 0n
  #output = { at: 0n, length: 0n }
  #error = { at: 0n, length: 0n }
  #taken = 0
  #nextByte = 1

  constructor(memory: KernelMemory, abi: Abi, limit: number) {
    this.#memory = memory
    this.#abi = abi
    this.#limit = limit
  }

  step(name: string, place: Place, size: bigint): void {
    const at = this.#resolve(place)
    if (name === 'alloc') this.#alloc(size)
    else if (name === 'free') this.#free(at)
    else if (name.startsWith('length')) equal(this.#call(name, at), this.#live(at)?.length ?? 0n)
    else if (name.startsWith('load')) this.#load(name, at, name === 'load_u8' ? 1 : 8)
    else if (name.startsWith('store')) this.#store(name, at, name === 'store_u8' ? 1 : 8)
    else if (name.startsWith('input_load')) this.#inputLoad(name, size, name === 'input_load_u8' ? 1 : 8)
    else if (name === 'output_set') this.#outputSet(at, size)
    else if (name === 'error_set') this.#errorSet(at)
    else this.#nextCall(size)
  }

  /** The present view of the host. */
  check(): void {
    equal(this.#memory.errorLength(), Number(this.#error.length))
    equal(this.#call('error_get'), this.#error.at)
    equal(this.#call('input_length'), BigInt(this.#input.length))
    equal(this.#memory.outputLength(), Number(this.#output.length))
    const { at, length } = this.#output
    const expected = new Uint8Array(Number(length))
    for (const [byteAt, byte] of this.#bytes) {
      if (byteAt >= at && byteAt < at + length) expected[Number(byteAt - at)] = byte
    }
    equal(Buffer.compare(this.#memory.output(), expected), 0)
  }

  #resolve(place: Place): bigint {
    if (typeof place === 'bigint') return place
    const block = this.#blocks[place.block % (this.#blocks.length || 1)]
    return BigInt.asUintN(64, (block?.at ?? 0n) + BigInt(place.delta))
  }

  #alloc(size: bigint): void {
    const at = BigInt.asUintN(64, this.#call('alloc', size) as bigint)
    if (at === 0n) {
      // Only if there was nothing to give: a block takes its length and an eighth, and is a multiple of 16.
      if (size > 0n) ok(this.#taken + Number(size) * 1.125 + 16 > this.#limit)
      return
    }
    this.#taken += Number(size) * 1.125 + 16
    ok(size > 0n)
    this.#add(at, size)
  }

  #add(at: bigint, length: bigint): void {
    const overlaps = this.#blocks.some(
      (block) => block.live && at < block.at + block.length && block.at < at + length,
    )
    equal(overlaps, false)
    this.#blocks.push({ at, length, live: true })
  }

  #free(at: bigint): void {
    this.#call('free', at)
    const block = this.#live(at)
    if (!block) return
    block.live = false
    if (at === this.#inputAt) this.#input = new Uint8Array()
  }

  #load(name: string, at: bigint, width: number): void {
    const loaded = this.#try(name, at)
    if (loaded === undefined) {
      this.#expectOutside(at, width)
      return
    }
    let expected = 0n
    for (let i = width - 1; i >= 0; i--) expected = (expected << 8n) | BigInt(this.#byte(at + BigInt(i)))
    equal(BigInt.asUintN(64, BigInt(loaded)), expected)
  }

  #store(name: string, at: bigint, width: number): void {
    const bytes = Array.from({ length: width }, () => (this.#nextByte = (this.#nextByte % 255) + 1))
    const value = bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
    if (this.#try(name, at, width === 1 ? Number(value) : value) === undefined) {
      this.#expectOutside(at, width)
      return
    }
    bytes.forEach((byte, i) => {
      this.#bytes.set(at + BigInt(i), byte)
    })
  }

  #inputLoad(name: string, index: bigint, width: number): void {
    const loaded = this.#try(name, index)
    const inside = index + BigInt(width) <= BigInt(this.#input.length)
    equal(loaded !== undefined, inside)
    if (loaded === undefined) return
    let expected = 0n
    for (let i = width - 1; i >= 0; i--) {
      expected = (expected << 8n) | BigInt(this.#byte(this.#inputAt + index + BigInt(i)))
    }
    equal(BigInt.asUintN(64, BigInt(loaded)), expected)
  }

  #outputSet(at: bigint, length: bigint): void {
    if (this.#try('output_set', at, length) === undefined) {
      this.#expectOutside(at, Number(length))
      return
    }
    if (length > 0n) ok(at + length <= BigInt(1_024 + this.#limit))
    this.#output = { at, length }
  }

  #errorSet(at: bigint): void {
    const length = this.#live(at)?.length ?? 0n
    const done = this.#try('error_set', at) !== undefined
    equal(done, at === 0n || length > 0n)
    if (done) this.#error = { at, length }
  }

  #nextCall(size: bigint): void {
    this.check()
    this.#memory.reset()
    this.#blocks = []
    this.#bytes.clear()
    this.#output = { at: 0n, length: 0n }
    this.#error = { at: 0n, length: 0n }
    this.#taken = 0
    this.#input = new Uint8Array(Number(size % 1_000n)).fill(0xa5)
    equal(this.#memory.input(this.#input), true)
    this.#inputAt = this.#call('input_offset') as bigint
    if (this.#input.length === 0) equal(this.#inputAt, 0n)
    else this.#add(this.#inputAt, BigInt(this.#input.length))
    this.#input.forEach((byte, i) => {
      this.#bytes.set(this.#inputAt + BigInt(i), byte)
    })
    this.#taken = this.#input.length * 1.125 + 16
  }

  #live(at: bigint): Block | undefined {
    return this.#blocks.find((block) => block.live && block.at === at)
  }

  #byte(at: bigint): number {
    return this.#bytes.get(at) ?? 0
  }

  /** A trap is right only where the bytes are not all within one block. */
  #expectOutside(at: bigint, width: number): void {
    const inside = this.#blocks.some(
      (block) => at >= block.at && at + BigInt(width) <= block.at + block.length,
    )
    equal(inside && width > 0, false)
  }

  #call(name: string, ...args: (bigint | number)[]): bigint | number {
    return this.#abi[name]?.(...args) ?? 0
  }

  /** @returns undefined if it traps. */
  #try(name: string, ...args: (bigint | number)[]): bigint | number | undefined {
    try {
      return this.#call(name, ...args)
    } catch (error) {
      ok(error instanceof WebAssembly.RuntimeError)
      return undefined
    }
  }
}
