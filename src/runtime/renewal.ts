import { RENEWABLE_EXPORT } from '../module/renewable.ts'
import type { RenewableModule } from '../plugin/load-module.ts'

/**
 * Makes an instance as new: to put back what its calls have changed costs a fraction of a new one, and leaves V8 no
 * garbage. What they can change is known, since the module exports it all (`module/renewable.ts`).
 */
export interface Renewal {
  /** Whether the guest has to be started after {@link renew}. */
  readonly needsStart: boolean
  /** To be told when the guest was started. */
  started(): void
  /** Puts everything back. @returns false if a new instance is cheaper. */
  renew(): boolean
}

/**
 * What instances were when they were new, which is the same for all with the same module and settings: to look for it
 * means to read a whole memory, of which a new instance has touched little.
 */
export interface Origins {
  linked?: Origin
  started?: Origin
}

/**
 * @param exports - Of an instance that was not started yet.
 * @param watch - Of what it imports, since it was made.
 * @param origins - Of others like it; what is not known yet is put in.
 * @returns undefined if its module's start function called the host: only a new instance runs it again. Also if its
 * memory is too large to be kept.
 */
export function openRenewal(
  module: RenewableModule,
  exports: WebAssembly.Exports,
  watch: HostWatch,
  origins: Origins = {},
): Renewal | undefined {
  const memory = exports[RENEWABLE_EXPORT.memory] as WebAssembly.Memory | undefined
  if (watch.wasCalled || (memory && memory.buffer.byteLength > MOST_KEPT)) return undefined
  return new InstanceRenewal(module, exports, watch, origins)
}

/** What an instance was when it was new. */
interface Origin {
  readonly globals: readonly unknown[]
  /** JavaScript knows one NaN, WebAssembly many: which it was is lost. */
  readonly hasNaN: boolean
  /** What is not zero, in order. */
  readonly bytes: readonly Placed[]
}

/** Bytes and where they are. */
interface Placed {
  readonly at: number
  readonly bytes: Uint8Array
}

class InstanceRenewal implements Renewal {
  /** Not if that called nothing of the host: it would leave the same again. */
  needsStart = true
  readonly #watch: HostWatch
  readonly #origins: Origins
  readonly #untrackedFrom: number
  /** None if the module has none. */
  readonly #memory: WebAssembly.Memory | undefined
  readonly #globals: readonly WebAssembly.Global[]
  readonly #lowest: WebAssembly.Global | undefined
  #bytes: Uint8Array
  #origin: Origin
  #worth: MemoryWorth

  constructor(module: RenewableModule, exports: WebAssembly.Exports, watch: HostWatch, origins: Origins) {
    this.#watch = watch
    this.#origins = origins
    this.#untrackedFrom = module.untrackedFrom
    this.#memory = exports[RENEWABLE_EXPORT.memory] as WebAssembly.Memory | undefined
    this.#globals = Array.from(
      { length: module.globals },
      (_, index) => exports[RENEWABLE_EXPORT.global(index)] as WebAssembly.Global,
    )
    this.#lowest = exports[RENEWABLE_EXPORT.lowest] as WebAssembly.Global | undefined
    this.#bytes = new Uint8Array(this.#memory?.buffer ?? new ArrayBuffer(0))
    origins.linked ??= this.#look()
    this.#origin = origins.linked
    this.#worth = new MemoryWorth(this.#bytes.length)
    this.#forgetWrites()
  }

  started(): void {
    if (this.#watch.wasCalled) return
    this.needsStart = false
    this.#lookAgain()
    this.#origins.started ??= this.#look()
    this.#origin = this.#origins.started
    this.#worth = new MemoryWorth(this.#bytes.length)
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

  #look(): Origin {
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

/** The unit in which memory is searched for what is not zero. */
const CHUNK = 1_024

/** Copies of what is not zero. */
function copyOfWritten(memory: Uint8Array): Placed[] {
  const zeros = Buffer.alloc(CHUNK)
  const isZero = (at: number) => zeros.compare(memory, at, at + CHUNK) === 0
  const placed: Placed[] = []
  for (let at = 0; at < memory.length; ) {
    const start = at
    while (at < memory.length && !isZero(at)) at += CHUNK
    if (at > start) placed.push({ at: start, bytes: memory.slice(start, at) })
    else at += CHUNK
  }
  return placed
}

/** A function of the host that a guest imports. */
export type HostCall = (...args: unknown[]) => unknown

/** Knows what of the host a guest has called. Not the kernel: its functions do the same for each new guest. */
export class HostWatch {
  /** Whether any function of the host was called since this was last set. */
  wasCalled = false
  /** Whether one was called, since this was last set, that writes into the guest's memory. */
  hasWritten = false

  watched(run: HostCall, writes: boolean): HostCall {
    return (...args) => {
      this.wasCalled = true
      if (writes) this.hasWritten = true
      return run(...args)
    }
  }
}

/**
 * Most bytes of a memory that is kept. A new one costs more, also if the guest touches little of it; and what is kept is
 * there while nobody calls.
 */
const MOST_KEPT = 33_554_432

/** To wipe so many bytes costs about as much as a new memory of that size, with the garbage collection that it brings. */
const MOST_EXCESS = 1_073_741_824

/**
 * Whether a memory is worth keeping. None can shrink: without an end one large call would make all later ones wipe as
 * much.
 */
export class MemoryWorth {
  readonly #initial: number
  #excess = 0

  constructor(initial: number) {
    this.#initial = initial
  }

  /** Asked once a call. @param bytes - Of the memory now. */
  isKept(bytes: number): boolean {
    this.#excess += bytes - this.#initial
    return bytes <= MOST_KEPT && this.#excess <= MOST_EXCESS
  }
}
