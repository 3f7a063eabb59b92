import { RENEWABLE_EXPORT } from '../module/renewable.ts'
import type { RenewableModule } from '../plugin/load-module.ts'

/**
 * Makes an instance as new: to put back what its calls have changed costs a fraction of a new one, and leaves V8 no
 * garbage. What they can change is known, since the module exports it all (`module/renewable.ts`).
 */
export interface Renewal {
  /** Whether the guest has to be started after {@link renew}. */
  readonly needsStart: boolean
  /** The caller reports that the guest was started. */
  started(): void
  /** Puts everything back. @returns false if a new instance is cheaper. */
  renew(): boolean
}

/**
 * The initial state of instances, the same for all with one module and settings. Finding it means reading a whole memory,
 * of which a new instance has touched little; so it is shared.
 */
export interface InitialStates {
  linked?: InitialState
  started?: InitialState
}

/**
 * @param exports - Of an instance that was not started yet.
 * @param watch - Watches its imports since it was made.
 * @param origins - Shared with instances of the same module and settings. Missing entries are filled in.
 * @returns undefined if its module's start function called the host: only a new instance runs it again. Also if its
 * memory is too large to be kept.
 */
export function openRenewal(
  module: RenewableModule,
  exports: WebAssembly.Exports,
  watch: HostWatch,
  origins: InitialStates = {},
): Renewal | undefined {
  const memory = exportedMemory(exports)
  if (watch.wasCalled || (memory && memory.buffer.byteLength > MAX_KEPT_BYTES)) return undefined
  return new InstanceRenewal(module, exports, watch, origins)
}

/** The state of an instance before its first call. */
interface InitialState {
  readonly globals: readonly unknown[]
  /** JavaScript knows one NaN, WebAssembly many: which it was is lost. */
  readonly hasNaN: boolean
  /** All segments that are not zero, in ascending order. */
  readonly bytes: readonly MemorySegment[]
}

/** Bytes and where they are. */
interface MemorySegment {
  readonly at: number
  readonly bytes: Uint8Array
}

class InstanceRenewal implements Renewal {
  /** Not if that called nothing of the host: it would leave the same again. */
  needsStart = true
  readonly #watch: HostWatch
  readonly #origins: InitialStates
  readonly #untrackedFrom: number
  /** None if the module has none. */
  readonly #memory: WebAssembly.Memory | undefined
  readonly #globals: readonly WebAssembly.Global[]
  readonly #lowest: WebAssembly.Global | undefined
  #bytes: Uint8Array
  #origin: InitialState
  #worth: MemoryReusePolicy

  constructor(
    module: RenewableModule,
    exports: WebAssembly.Exports,
    watch: HostWatch,
    origins: InitialStates,
  ) {
    this.#watch = watch
    this.#origins = origins
    this.#untrackedFrom = module.untrackedFrom
    this.#memory = exportedMemory(exports)
    const names = Array.from({ length: module.globals }, (_, index) => RENEWABLE_EXPORT.global(index))
    this.#globals = names.map((name) => exports[name]).filter(isGlobal)
    const lowest = exports[RENEWABLE_EXPORT.lowest]
    this.#lowest = isGlobal(lowest) ? lowest : undefined
    this.#bytes = new Uint8Array(this.#memory?.buffer ?? new ArrayBuffer(0))
    origins.linked ??= this.#look()
    this.#origin = origins.linked
    this.#worth = new MemoryReusePolicy(this.#bytes.length)
    this.#forgetWrites()
  }

  started(): void {
    if (this.#watch.wasCalled) return
    this.needsStart = false
    this.#lookAgain()
    this.#origins.started ??= this.#look()
    this.#origin = this.#origins.started
    this.#worth = new MemoryReusePolicy(this.#bytes.length)
    this.#forgetWrites()
  }

  renew(): boolean {
    this.#lookAgain()
    if (this.#origin.hasNaN || !this.#worth.isKept(this.#bytes.length)) return false
    const from = this.#firstWritten()
    this.#bytes.fill(0, from)
    for (const { at, bytes } of this.#origin.bytes) {
      if (at + bytes.length > from) this.#bytes.set(bytes, at)
    }
    for (let index = 0; index < this.#globals.length; index++) {
      const global = this.#globals[index]
      if (global) global.value = this.#origin.globals[index]
    }
    this.#forgetWrites()
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

  #firstWritten(): number {
    if (!this.#lowest || this.#watch.hasWritten) return 0
    return Math.min(this.#lowest.value >>> 0, this.#untrackedFrom)
  }

  #forgetWrites(): void {
    this.#watch.wasCalled = false
    this.#watch.hasWritten = false
    if (this.#lowest) this.#lowest.value = this.#untrackedFrom
  }
}

function exportedMemory(exports: WebAssembly.Exports): WebAssembly.Memory | undefined {
  const memory = exports[RENEWABLE_EXPORT.memory]
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

/** Records which host functions a guest has called. The kernel does not count: its functions do the same for each new guest. */
export class HostWatch {
  /** Whether any function of the host was called since this was last set. */
  wasCalled = false
  /** Whether one was called, since this was last set, that writes into the guest's memory. */
  hasWritten = false

  watched(run: ImportedHostFunction, writes: boolean): ImportedHostFunction {
    return (...args) => {
      this.wasCalled = true
      if (writes) this.hasWritten = true
      return run(...args)
    }
  }
}

/**
 * Maximum size of a memory that is kept. A new memory costs more, even if the guest touches little of it; but a kept one
 * occupies memory while no call runs.
 */
const MAX_KEPT_BYTES = 33_554_432

/** To wipe so many bytes costs about as much as a new memory of that size, with the garbage collection that it brings. */
const MAX_EXCESS_BYTES = 1_073_741_824

/**
 * Whether a memory is worth keeping. None can shrink: without an end one large call would make all later ones wipe as
 * much.
 */
export class MemoryReusePolicy {
  readonly #initial: number
  #excess = 0

  constructor(initial: number) {
    this.#initial = initial
  }

  /** Asked once a call. @param bytes - Of the memory now. */
  isKept(bytes: number): boolean {
    this.#excess += bytes - this.#initial
    return bytes <= MAX_KEPT_BYTES && this.#excess <= MAX_EXCESS_BYTES
  }
}
