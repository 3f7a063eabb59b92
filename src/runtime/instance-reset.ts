import { MAX_KEPT_BYTES, RESET_EXPORT, RESTORED_AROUND, WRITTEN_BLOCK_BITS } from '../module/names.ts'
import type { ResettableModule } from '../plugin/load-module.ts'

/**
 * Restores the initial state of an instance. Undoing the changes of its calls costs a fraction of a new instance and
 * creates no garbage. The possible changes are known, because the module exports all its state (`module/resettable.ts`).
 */
export interface InstanceReset {
  /** Whether the guest has to be started again after {@link renew}. */
  readonly needsStart: boolean
  /** The caller reports that the guest was started. */
  started(): void
  /** Restores everything. @returns false if a new instance is cheaper. */
  renew(): boolean
}

/**
 * The initial state of instances, shared by all with one module and settings. Finding it requires reading a whole memory,
 * of which a new instance has touched little.
 */
export interface InitialStates {
  linked?: InitialState
  started?: InitialState
}

/**
 * @param exports - The exports of an instance that was not started yet.
 * @param watch - Has recorded calls of its imports since it was created.
 * @param origins - Shared with instances of the same module and settings. Missing entries are filled in.
 * @returns undefined if its module's start function called the host, because only a new instance runs it again, or if its
 * memory is too large to keep.
 */
export function openInstanceReset(
  module: ResettableModule,
  exports: WebAssembly.Exports,
  watch: HostWatch,
  origins: InitialStates = {},
): InstanceReset | undefined {
  const memory = exportedMemory(exports)
  if (watch.wasCalled || (memory && memory.buffer.byteLength > MAX_KEPT_BYTES)) return undefined
  return new StateReset(module, exports, watch, origins)
}

/** The state of an instance before its first call. */
interface InitialState {
  readonly globals: readonly unknown[]
  /** JavaScript has a single NaN, WebAssembly many, which cannot be distinguished here. */
  readonly hasNaN: boolean
  /** All segments that are not zero, in ascending order. */
  readonly bytes: readonly MemorySegment[]
}

/** Bytes and their position. */
interface MemorySegment {
  readonly at: number
  readonly bytes: Uint8Array
}

class StateReset implements InstanceReset {
  /** Unset if that called no host function: then a repeated start would have the same result. */
  needsStart = true
  readonly #watch: HostWatch
  readonly #origins: InitialStates
  /** undefined if the module has none. */
  readonly #memory: WebAssembly.Memory | undefined
  readonly #globals: readonly WebAssembly.Global[]
  readonly #writes: Writes
  #bytes: Uint8Array
  #origin: InitialState
  #worth: MemoryReusePolicy

  constructor(
    module: ResettableModule,
    exports: WebAssembly.Exports,
    watch: HostWatch,
    origins: InitialStates,
  ) {
    this.#watch = watch
    this.#origins = origins
    this.#memory = exportedMemory(exports)
    const names = Array.from({ length: module.globals }, (_, index) => RESET_EXPORT.global(index))
    this.#globals = names.map((name) => exports[name]).filter(isGlobal)
    this.#writes =
      module.records === 'blocks' ? new MarkedBlocks(exports, watch) : new LowestWrite(module, exports, watch)
    this.#bytes = new Uint8Array(this.#memory?.buffer ?? new ArrayBuffer(0))
    origins.linked ??= this.#look()
    this.#origin = origins.linked
    this.#worth = new MemoryReusePolicy(this.#bytes.length)
    this.#forget()
  }

  started(): void {
    if (this.#watch.wasCalled) return
    this.needsStart = false
    this.#lookAgain()
    this.#origins.started ??= this.#look()
    this.#origin = this.#origins.started
    this.#worth = new MemoryReusePolicy(this.#bytes.length)
    this.#forget()
  }

  renew(): boolean {
    this.#lookAgain()
    if (this.#origin.hasNaN || !this.#worth.isKept(this.#bytes.length)) return false
    this.#writes.undo(this.#bytes, this.#origin.bytes)
    for (let index = 0; index < this.#globals.length; index++) {
      const global = this.#globals[index]
      if (global) global.value = this.#origin.globals[index]
    }
    this.#watch.wasCalled = false
    return true
  }

  /** A memory that has grown has a new buffer. */
  #lookAgain(): void {
    if (this.#bytes.length === 0) this.#bytes = new Uint8Array(this.#memory?.buffer ?? new ArrayBuffer(0))
  }

  #look(): InitialState {
    const globals = this.#globals.map(({ value }) => value)
    return { globals, hasNaN: globals.some(Number.isNaN), bytes: copyOfWritten(this.#bytes) }
  }

  #forget(): void {
    this.#watch.wasCalled = false
    this.#writes.forget(this.#bytes.length)
  }
}

/** Knows which part of a memory was written. */
interface Writes {
  /** Restores that part, and forgets it. @param segments - The initial bytes that are not zero, in ascending order. */
  undo(bytes: Uint8Array, segments: readonly MemorySegment[]): void
  /** @param size - That of the memory. */
  forget(size: number): void
}

type BlockSearch = (from: number, end: number) => number

/** The module marks the blocks that it writes, and so does the host. */
class MarkedBlocks implements Writes {
  readonly #find: BlockSearch
  readonly #clear: BlockSearch

  constructor(exports: WebAssembly.Exports, watch: HostWatch) {
    this.#find = exports[RESET_EXPORT.findWritten] as BlockSearch
    this.#clear = exports[RESET_EXPORT.clearWritten] as BlockSearch
    watch.wrote = exports[RESET_EXPORT.markWritten] as HostWatch['wrote']
  }

  undo(bytes: Uint8Array, segments: readonly MemorySegment[]): void {
    const end = bytes.length >> WRITTEN_BLOCK_BITS
    let place = 0
    for (let first = this.#find(0, end); first < end; ) {
      const next = this.#clear(first, end)
      const from = Math.max((first << WRITTEN_BLOCK_BITS) - RESTORED_AROUND, 0)
      const to = Math.min((next << WRITTEN_BLOCK_BITS) + RESTORED_AROUND, bytes.length)
      while (isBefore(segments[place], from)) place++
      restore(bytes, from, to, segments, place)
      first = this.#find(next, end)
    }
  }

  forget(size: number): void {
    const end = size >> WRITTEN_BLOCK_BITS
    for (let at = this.#find(0, end); at < end; at = this.#find(at, end)) at = this.#clear(at, end)
  }
}

/** The module records the lowest address that it writes, if it has a large stack below its data. */
class LowestWrite implements Writes {
  readonly #watch: HostWatch
  readonly #untrackedFrom: number
  readonly #lowest: WebAssembly.Global | undefined

  constructor({ untrackedFrom }: ResettableModule, exports: WebAssembly.Exports, watch: HostWatch) {
    const lowest = exports[RESET_EXPORT.lowest]
    this.#watch = watch
    this.#untrackedFrom = untrackedFrom
    this.#lowest = isGlobal(lowest) ? lowest : undefined
  }

  undo(bytes: Uint8Array, segments: readonly MemorySegment[]): void {
    const isKnown = this.#lowest && !this.#watch.hasWritten
    const from = isKnown ? Math.min(this.#lowest.value >>> 0, this.#untrackedFrom) : 0
    restore(bytes, from, bytes.length, segments, 0)
    this.forget()
  }

  forget(): void {
    this.#watch.hasWritten = false
    if (this.#lowest) this.#lowest.value = this.#untrackedFrom
  }
}

/** Restores a part of a memory. @param place - That of the first segment that may reach into it. */
function restore(
  bytes: Uint8Array,
  from: number,
  to: number,
  segments: readonly MemorySegment[],
  place: number,
): void {
  let at = from
  for (let index = place; at < to; index++) {
    const segment = segments[index]
    const start = Math.min(segment ? Math.max(segment.at, at) : to, to)
    if (start > at) bytes.fill(0, at, start)
    if (!segment || start === to) return
    const end = Math.min(segment.at + segment.bytes.length, to)
    if (end > start) bytes.set(segment.bytes.subarray(start - segment.at, end - segment.at), start)
    at = Math.max(start, end)
  }
}

function isBefore(segment: MemorySegment | undefined, at: number): boolean {
  return segment !== undefined && segment.at + segment.bytes.length <= at
}

function exportedMemory(exports: WebAssembly.Exports): WebAssembly.Memory | undefined {
  const memory = exports[RESET_EXPORT.memory]
  return memory instanceof WebAssembly.Memory ? memory : undefined
}

function isGlobal(value: unknown): value is WebAssembly.Global {
  return value instanceof WebAssembly.Global
}

/** Memory is searched for non-zero bytes in units of this size. */
const SCAN_BYTES = 1_024

/** Copies the segments that are not zero. */
function copyOfWritten(memory: Uint8Array): MemorySegment[] {
  const zeros = Buffer.alloc(SCAN_BYTES)
  const isZero = (at: number) => zeros.compare(memory, at, at + SCAN_BYTES) === 0
  const placed: MemorySegment[] = []
  for (let at = 0; at < memory.length; ) {
    const start = at
    while (at < memory.length && !isZero(at)) at += SCAN_BYTES
    if (at > start) placed.push({ at: start, bytes: memory.slice(start, at) })
    else at += SCAN_BYTES
  }
  return placed
}

/** A function of the host that a guest imports. */
export type ImportedHostFunction = (...args: unknown[]) => unknown

/** Records which host functions a guest has called. Kernel functions are ignored: they behave the same for each new guest. */
export class HostWatch {
  /** Whether any host function was called since the last reset. */
  wasCalled = false
  /** Whether one that writes into the guest's memory was called since the last reset. */
  hasWritten = false
  /** Tells a module that marks its writes that the host wrote into its memory, too. */
  wrote: ((address: number, length: number) => void) | undefined

  watched(run: ImportedHostFunction, writes: boolean): ImportedHostFunction {
    return (...args) => {
      this.wasCalled = true
      if (writes) this.hasWritten = true
      return run(...args)
    }
  }
}

/** Wiping this many bytes takes about as long as creating a memory of that size, including garbage collection. */
const MAX_EXCESS_BYTES = 1_073_741_824

/**
 * Whether a memory is worth keeping. Memories cannot shrink: without this limit, one large call would make all later ones
 * wipe as much.
 */
export class MemoryReusePolicy {
  readonly #initial: number
  #excess = 0

  constructor(initial: number) {
    this.#initial = initial
  }

  /** Called once per call. @param bytes - Current size of the memory. */
  isKept(bytes: number): boolean {
    this.#excess += bytes - this.#initial
    return bytes <= MAX_KEPT_BYTES && this.#excess <= MAX_EXCESS_BYTES
  }
}
