import type { KernelMemoryKind } from '../module/merge.ts'
import { takeBuffer } from '../platform/buffer-pool.ts'
import { type ByteSource, copyBytes } from '../platform/chunks.ts'
import { GUEST_LIMITS } from '../platform/guest-limits.ts'
import {
  GUEST_FUNCTIONS,
  instantiateKernel,
  KERNEL_MODULE,
  MAX_BLOCKS,
  newSharedMemory,
  ownMemory,
  ROOT,
} from './kernel-module.ts'

/** The host's interface to `kernel.wasm`: writes and reads blocks. The guest gets only `functions`. */
export interface KernelMemory {
  /** Imported by the guest directly: no JavaScript runs when it calls them. */
  readonly functions: Readonly<Record<string, WebAssembly.ExportValue>>
  /** The memory of the blocks, for guests into which the kernel is merged. */
  readonly memory: WebAssembly.Memory
  /** The current size in bytes. Never shrinks. */
  readonly size: number

  /** Maximum bytes of the blocks of a call. */
  readonly blockLimit: number

  /** Whether any block was created since it was wiped. */
  readonly isUsed: boolean

  /**
   * Copies the input of a call, unless it is a view of this memory: then another thread has written it.
   *
   * @returns false if it exceeds the limit of a call's blocks.
   */
  input(bytes: ByteSource): boolean
  /** A view of the input. */
  inputView(): Uint8Array

  /**
   * Replaces the input during a call, if the guest has read a part of it. The block of the last replacement is released,
   * unless the guest has released it: then another one may start there. The first input's block stays.
   *
   * @returns the offset of the new input; 0 for no bytes.
   * @throws Error if the blocks of the call would exceed their limit.
   */
  replaceInput(bytes: Uint8Array): bigint

  /** Size of the output that the guest set; 0 if none. */
  outputLength(): number
  /** A copy of the output. */
  output(): Uint8Array
  /** A view of the output, valid until it is wiped. */
  outputView(): Uint8Array

  /** Size of the error message that the guest set; 0 if none. */
  errorLength(): number
  /** The error message up to `errorBytes` of {@link GUEST_LIMITS}, decoded; invalid UTF-8 becomes U+FFFD. */
  error(): string

  /**
   * A view of a live block, valid until a block is created or the guest continues. Copy what is posted to another thread: the
   * memory may be shared.
   *
   * @param at - From the guest and untrusted. 0 means no bytes.
   * @throws Error if no live block starts there.
   */
  read(at: bigint): Uint8Array

  /**
   * Creates a block with these bytes for the guest.
   *
   * @returns its offset; 0 if there are no bytes.
   * @throws Error if the blocks of the call would exceed their limit.
   */
  store(bytes: Uint8Array): bigint

  /** Ends a call: wipes its blocks. */
  reset(): void
}

/**
 * @param blockLimit - Maximum bytes of blocks that one call may use; below 2 GiB.
 * @param kind - What the guests were merged for.
 */
export function openKernelMemory(blockLimit: number, kind: KernelMemoryKind = 'own'): KernelMemory {
  if (kind === 'shared') return joinKernelMemory(newSharedMemory(blockLimit))
  const instance = new WebAssembly.Instance(KERNEL_MODULE)
  const memory = ownMemory(instance)
  new Uint32Array(memory.buffer)[ROOT.most] = Math.min(blockLimit, MAX_BLOCKS)
  return new LinkedKernelMemory(instance, memory)
}

/** @param memory - Made by {@link newSharedMemory}. No other thread may use it while this one does. */
export function joinKernelMemory(memory: WebAssembly.Memory): KernelMemory {
  return new LinkedKernelMemory(instantiateKernel(memory), memory)
}

interface KernelExports {
  readonly block_new: (bytes: number) => number
  readonly block_length: (at: number) => number
  readonly input_new: (bytes: number) => number
  readonly reset: () => void
}

function isKernel(exports: object): exports is KernelExports {
  return 'input_new' in exports
}

class LinkedKernelMemory implements KernelMemory {
  readonly functions: Readonly<Record<string, WebAssembly.ExportValue>>
  readonly memory: WebAssembly.Memory
  readonly #kernel: KernelExports
  readonly #isShared: boolean
  #bytes: Uint8Array
  /** Offset of the last replacement of the input in this call; 0 if none. */
  #replacedAt = 0
  #root: Uint32Array

  constructor({ exports }: WebAssembly.Instance, memory: WebAssembly.Memory) {
    const functions: Record<string, WebAssembly.ExportValue> = {}
    for (const name of GUEST_FUNCTIONS) functions[name] = exports[name] as WebAssembly.ExportValue
    this.functions = functions
    if (!isKernel(exports)) throw new Error('the kernel has no function for inputs')
    this.#kernel = exports
    this.memory = memory
    this.#isShared = !(memory.buffer instanceof ArrayBuffer)
    this.#bytes = new Uint8Array(memory.buffer)
    this.#root = new Uint32Array(memory.buffer)
  }

  get size(): number {
    return this.#view().length
  }

  get blockLimit(): number {
    return this.#word(ROOT.most)
  }

  get isUsed(): boolean {
    return this.#word(ROOT.span) > 0
  }

  input(bytes: ByteSource): boolean {
    if (bytes.length === 0 || (this.#isShared && this.#hasWritten(bytes))) return true
    if (this.#isShared) this.#waitForGrowth()
    const at = this.#new(bytes.length, this.#kernel.input_new)
    if (at === 0) return false
    copyBytes(bytes, this.#view(), at)
    return true
  }

  inputView(): Uint8Array {
    const at = this.#word(ROOT.inputAt)
    return this.#view().subarray(at, at + this.#word(ROOT.input))
  }

  replaceInput(bytes: Uint8Array): bigint {
    // The kernel sets the length of the input to 0 when the guest releases its block.
    if (this.#replacedAt !== 0 && this.#word(ROOT.input) > 0) this.#free(BigInt(this.#replacedAt))
    this.#replacedAt = 0
    if (bytes.length === 0) return 0n
    const at = this.#new(bytes.length, this.#kernel.input_new)
    if (at === 0) throw new Error(`no room for a block of ${bytes.length} bytes`)
    this.#view().set(bytes, at)
    this.#replacedAt = at
    return BigInt(at)
  }

  outputLength(): number {
    return this.#word(ROOT.output)
  }

  output(): Uint8Array {
    const at = this.#word(ROOT.outputAt)
    if (at === 0) return NO_BYTES
    // A `Buffer`: small ones use a preallocated pool. A separate allocation would cost an HTTP server 2 us per request.
    const output = takeBuffer(this.#word(ROOT.output))
    output.set(this.#view().subarray(at, at + output.length))
    return output
  }

  outputView(): Uint8Array {
    const at = this.#word(ROOT.outputAt)
    return at === 0 ? NO_BYTES : this.#view().subarray(at, at + this.#word(ROOT.output))
  }

  errorLength(): number {
    return this.#word(ROOT.error)
  }

  error(): string {
    const at = this.#word(ROOT.errorAt)
    const length = Math.min(this.#word(ROOT.error), GUEST_LIMITS.errorBytes)
    return utf8.decode(this.#view().subarray(at, at + length))
  }

  read(handle: bigint): Uint8Array {
    const offset = BigInt.asUintN(64, handle)
    if (offset === 0n) return NO_BYTES
    const at = offset > 0xffff_ffffn ? 0 : Number(offset)
    const length = this.#kernel.block_length(at)
    if (length === 0) throw new Error(`no block starts at offset ${offset}`)
    return this.#view().subarray(at, at + length)
  }

  store(bytes: Uint8Array): bigint {
    if (bytes.length === 0) return 0n
    const at = this.#new(bytes.length, this.#kernel.block_new)
    if (at === 0) throw new Error(`no room for a block of ${bytes.length} bytes`)
    this.#view().set(bytes, at)
    return BigInt(at)
  }

  reset(): void {
    this.#replacedAt = 0
    if (this.#isShared) this.#waitForGrowth()
    this.#kernel.reset()
  }

  #free(at: bigint): void {
    const free = this.functions.free as (at: bigint) => void
    free(at)
  }

  /** An i32 wraps larger numbers; as a result it is signed. */
  #new(length: number, make: (bytes: number) => number): number {
    return length > 0x7fff_ffff ? 0 : make(length) >>> 0
  }

  #word(index: number): number {
    if (this.#root.length === 0) this.#renewViews()
    return this.#root[index] ?? 0
  }

  #hasWritten(bytes: ByteSource): boolean {
    return bytes instanceof Uint8Array && bytes.buffer === this.memory.buffer
  }

  /** Growth detaches views, whose length becomes 0: cheaper to check than `memory.buffer`. Views of shared memories stay. */
  #view(): Uint8Array {
    if (this.#isShared) this.#waitForGrowth()
    else if (this.#bytes.length === 0) this.#renewViews()
    return this.#bytes
  }

  /**
   * When another thread has grown the memory, V8 tells this one at its next check for interrupts, such as that of a loop. Until
   * then the kernel and the views have the old size, which does not reach to the end of the map of the blocks.
   */
  #waitForGrowth(): void {
    if (this.#bytes.buffer !== this.memory.buffer) this.#renewViews()
    while (this.#bytes.length < this.#word(ROOT.limit) + (this.#word(ROOT.span) >>> 2)) {
      this.memory.grow(0) // V8 may show the growth of another thread only then: https://github.com/toyobayashi/emnapi/issues/217
      if (this.#bytes.buffer !== this.memory.buffer) this.#renewViews()
    }
  }

  #renewViews(): void {
    this.#bytes = new Uint8Array(this.memory.buffer)
    this.#root = new Uint32Array(this.memory.buffer)
    weigh(this.memory)
  }
}

/** The buffers of {@link weigh}. */
const weights = new WeakMap<WebAssembly.Memory, ArrayBuffer>()

/** Smaller shared memories are not counted. */
const MIN_WEIGHT_BYTES = 1_048_576

/**
 * Makes V8's garbage collector count a shared memory, which it does not by itself: gigabytes of unused ones would stay. It allocates a
 * buffer of the same size, which V8 counts. Nothing is written to the buffer, so it occupies no physical memory.
 */
export function weigh(memory: WebAssembly.Memory): void {
  const { buffer } = memory
  const { byteLength } = buffer
  if (buffer instanceof ArrayBuffer || byteLength < MIN_WEIGHT_BYTES) return
  if (weights.get(memory)?.byteLength === byteLength) return
  try {
    weights.set(memory, new ArrayBuffer(byteLength))
  } catch {
    // There are no addresses for it: the memory is not counted.
  }
}

const NO_BYTES = new Uint8Array()

const utf8 = new TextDecoder()
