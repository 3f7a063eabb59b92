import { ExtismInputTooLargeError } from '../errors/extism.ts'
import {
  GUEST_FUNCTIONS,
  instantiateKernel,
  KERNEL_MODULE,
  MAX_BLOCKS,
  newSharedMemory,
  ownMemory,
  ROOT,
} from '../runtime/kernel-module.ts'
import { DeferredInput } from './deferred-input.ts'

/**
 * The host's side of `kernel.wasm` for plug-ins without a server: blocks stay until the next call begins, so that a host
 * function's context can read them after the call, and the memory may be shared by two threads.
 */
export class KernelBlocks {
  /** The guest imports them as they are. */
  readonly functions: Readonly<Record<string, WebAssembly.ImportValue>>
  readonly memory: WebAssembly.Memory
  readonly #blockNew: (bytes: number) => number
  readonly #blockLength: (at: number) => number
  readonly #inputNew: (bytes: number) => number
  readonly #reset: () => void
  readonly #free: (at: bigint) => void
  readonly #deferred: DeferredInput | undefined
  #bytes: Buffer<ArrayBufferLike>
  #root: Uint32Array
  /** Lengths of blocks that were taken from the guest and are not used again yet, by offset. The oldest is the first. */
  readonly #taken = new Map<number, number>()
  #takenBytes = 0

  /**
   * @param memory - Its own by default.
   * @param deferred - Defers large inputs. Default: inputs are copied at once.
   */
  constructor(instance: WebAssembly.Instance, memory = ownMemory(instance), deferred?: DeferredInput) {
    const exports = { ...instance.exports, ...deferred?.exports }
    this.memory = memory
    this.#deferred = deferred
    this.functions = Object.fromEntries(GUEST_FUNCTIONS.map((name) => [name, functionOf(exports, name)]))
    this.#blockNew = functionOf(exports, 'block_new')
    this.#blockLength = functionOf(exports, 'block_length')
    this.#inputNew = functionOf(exports, 'input_new')
    this.#reset = functionOf(exports, 'reset')
    this.#free = functionOf(exports, 'free')
    this.#bytes = Buffer.from(memory.buffer)
    this.#root = new Uint32Array(memory.buffer)
  }

  /** Wipes the blocks of the last call. */
  reset(): void {
    if (this.#deferred) this.#deferred.reset()
    else this.#reset()
    this.#setWord(ROOT.outputAt, NO_OUTPUT)
    this.forgetTaken()
  }

  /** Forgets taken blocks after a reset by another thread. */
  forgetTaken(): void {
    this.#taken.clear()
    this.#takenBytes = 0
  }

  /**
   * Takes the input of a call, which `reset` began. A large one is copied when it is read.
   *
   * @throws {@link ExtismInputTooLargeError}
   */
  input(input: string | Uint8Array): void {
    if (this.#deferred && input.length >= MIN_DEFERRED_BYTES) {
      const bytes = typeof input === 'string' ? encoder.encode(input) : input
      this.#newInput(bytes.length)
      this.#deferred.begin(ownBytes(bytes))
      return
    }
    const length = typeof input === 'string' ? Buffer.byteLength(input) : input.length
    if (length === 0) return
    const at = this.#newInput(length)
    const bytes = this.#view(at + length)
    if (typeof input === 'string') bytes.write(input, at, length, 'utf8')
    else bytes.set(input, at)
  }

  /** Copies the input if that was deferred: the caller may change it from now on. */
  settleInput(): void {
    this.#deferred?.settle()
  }

  /** @returns undefined if the guest named no output. */
  output(): ArrayBuffer | undefined {
    const at = this.#word(ROOT.outputAt)
    if (at === NO_OUTPUT) return undefined
    const length = this.#word(ROOT.output)
    return this.#deferred?.bufferOf(at, length) ?? this.#copy(at, length)
  }

  /** @returns undefined if there is none. */
  error(): string | undefined {
    const at = this.#word(ROOT.errorAt)
    return at === 0 ? undefined : utf8.decode(this.#copy(at, this.#word(ROOT.error)))
  }

  setError(at: bigint): void {
    this.#setWord(ROOT.errorAt, Number(at))
    this.#setWord(ROOT.error, this.length(at))
  }

  /** Bytes of the block that begins there; undefined if none does. The offset 0 means no bytes. */
  lengthOf(at: bigint | number): number | undefined {
    const offset = toOffset(at)
    if (offset === 0 || offset === EMPTY_OFFSET) return 0
    return this.#blockLength(offset) || undefined
  }

  length(at: bigint | number): number {
    return this.lengthOf(at) ?? 0
  }

  /** A copy of the block that begins there, or the buffer of a deferred input; undefined if no block does. */
  read(at: bigint | number): ArrayBuffer | undefined {
    const length = this.lengthOf(at)
    if (length === undefined) return undefined
    const offset = toOffset(at)
    return this.#deferred?.bufferOf(offset, length) ?? this.#copy(offset, length)
  }

  /** Writes into the block that begins there, if it is still there. */
  write(at: bigint, bytes: Uint8Array): void {
    const offset = toOffset(at)
    if (this.length(at) !== bytes.length) return
    if (bytes.buffer === this.#deferred?.bufferOf(offset, bytes.length)) this.#deferred.renew()
    else this.#write(offset, bytes)
  }

  /** @returns the offset of a new block; 0 if there is no room. */
  alloc(length: number): bigint {
    if (length === 0) return BigInt(EMPTY_OFFSET)
    if (!(length > 0 && length <= MAX_BLOCKS)) return 0n
    const at = this.#blockNew(length) >>> 0
    return at === 0 && this.reuseTaken() ? this.alloc(length) : BigInt(at)
  }

  /** @returns the offset of a block with these bytes; 0 if there is no room. */
  store(bytes: Uint8Array): bigint {
    const at = this.alloc(bytes.length)
    if (at !== 0n && bytes.length > 0) this.#write(Number(at), bytes)
    return at
  }

  /**
   * Takes a block from the guest, for which none begins there any more. Its room is not used again soon: some PDKs free the
   * block, too, and would then free what has taken its place.
   */
  take(at: bigint): void {
    const offset = toOffset(at)
    const length = this.#blockLength(offset)
    if (length === 0 || offset === this.#word(ROOT.inputAt)) return
    this.reuseTaken(Math.min(MAX_TAKEN_BYTES, this.#word(ROOT.most) >> 4) - length)
    this.#setEntry(offset, FREED)
    this.#taken.set(offset, length)
    this.#takenBytes += length
  }

  /**
   * Frees the oldest blocks that were taken from the guest.
   *
   * @param most - Maximum bytes to keep.
   * @returns false if there were none.
   */
  reuseTaken(most = 0): boolean {
    const before = this.#taken.size
    for (const [at, length] of this.#taken) {
      if (this.#takenBytes <= most) break
      this.#taken.delete(at)
      this.#takenBytes -= length
      this.#setEntry(at, length)
      this.#free(BigInt(at))
    }
    return this.#taken.size < before
  }

  /** What the kernel's map says of a block. */
  #setEntry(at: number, entry: number): void {
    const entryAt = this.#word(ROOT.limit) + ((at - FIRST_OFFSET) >> 2)
    this.#view(entryAt + 4).writeUInt32LE(entry, entryAt)
  }

  #newInput(length: number): number {
    const at = length > MAX_BLOCKS ? 0 : this.#inputNew(length) >>> 0
    if (at === 0) throw new ExtismInputTooLargeError(length)
    return at
  }

  #copy(at: number, length: number): ArrayBuffer {
    // Not from the pool of `Buffer`, and not filled with zeros first.
    const copy = Buffer.allocUnsafeSlow(length)
    if (length > 0) {
      this.#deferred?.fill(at)
      this.#view(at + length).copy(copy, 0, at, at + length)
    }
    return copy.buffer
  }

  #write(at: number, bytes: Uint8Array): void {
    this.#deferred?.settle(at)
    this.#view(at + bytes.length).set(bytes, at)
  }

  #word(index: number): number {
    this.#view(ROOT_BYTES)
    return this.#root[index] ?? 0
  }

  #setWord(index: number, value: number): void {
    this.#view(ROOT_BYTES)
    this.#root[index] = value
  }

  /** Growth of a memory detaches the views. Growth of a shared memory leaves them, and makes a longer buffer. */
  #view(end: number): Buffer<ArrayBufferLike> {
    if (this.#bytes.length < end) {
      this.#bytes = Buffer.from(this.memory.buffer)
      this.#root = new Uint32Array(this.memory.buffer)
    }
    return this.#bytes
  }
}

/** @param blockLimit - Maximum bytes of blocks that one call may use. */
export function openKernelBlocks(blockLimit: number): KernelBlocks {
  const instance = new WebAssembly.Instance(KERNEL_MODULE)
  const blocks = new KernelBlocks(instance, ownMemory(instance), new DeferredInput(instance))
  new Uint32Array(blocks.memory.buffer)[ROOT.most] = Math.min(blockLimit, MAX_BLOCKS)
  blocks.reset()
  return blocks
}

/**
 * Blocks of two threads, one of which waits while the other runs. All state of the kernel is in its memory, so each thread
 * has an instance of the kernel.
 *
 * @param blockLimit - Maximum bytes of blocks that one call may use.
 */
export function openSharedBlocks(blockLimit: number): KernelBlocks {
  const memory = newSharedMemory(blockLimit)
  const blocks = joinBlocks(memory)
  blocks.reset()
  return blocks
}

/** @param memory - The memory of {@link openSharedBlocks} in another thread. */
export function joinBlocks(memory: WebAssembly.Memory): KernelBlocks {
  return new KernelBlocks(instantiateKernel(memory), memory)
}

/**
 * The offset of every empty block that the host makes. 0 would mean no block. The offset is in the kernel's own area, which
 * has no blocks, so a load from it traps.
 */
const EMPTY_OFFSET = 16

/** Where blocks begin. */
const FIRST_OFFSET = 1_024

/** The entry of a freed block that is in no list of the kernel. */
const FREED = 0x8000_0000

/** Limit of kept blocks that were taken from a guest. No known PDK is protected by more. */
const MAX_TAKEN_BYTES = 65_536

/** The output's offset until the guest sets an output. An empty output may have the offset 0. */
const NO_OUTPUT = 0xffff_ffff

const ROOT_BYTES = 64

/** Copying a smaller input costs less than deferring it. */
const MIN_DEFERRED_BYTES = 4_096

/** The bytes, alone in an `ArrayBuffer`. Copies parts of buffers, and memory that is shared or can be resized. */
function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length && !buffer.resizable
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes)
}

const encoder = new TextEncoder()
const utf8 = new TextDecoder()

function toOffset(at: bigint | number): number {
  const offset = BigInt.asUintN(64, BigInt(at))
  return offset > 0xffff_ffffn ? NOWHERE : Number(offset)
}

/** An offset at which no block begins. */
const NOWHERE = 1

function functionOf<Args extends unknown[], Result>(
  exports: WebAssembly.Exports,
  name: string,
): (...args: Args) => Result {
  const found = exports[name]
  if (typeof found !== 'function') throw new Error(`the kernel has no function ${name}`)
  return found as (...args: Args) => Result
}
