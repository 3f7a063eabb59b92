import type { MemoryLimits } from '../plugin/memory-import.ts'
import { type KernelMemory, openKernelMemory } from './kernel-memory.ts'
import type { LinkPlan } from './link-plan.ts'

/**
 * The memories of an instance: the kernel's, and those of modules that import theirs. They are the dear part of it:
 * each costs system calls, and V8 collects all garbage after each 64 MiB of new ones, whatever was touched of them.
 */
export interface InstanceMemories {
  readonly kernel: KernelMemory
  /** The memory of a module: zero, and of its initial size. */
  ofModule(name: string, limits: MemoryLimits): WebAssembly.Memory
  /** Wipes them and leaves them to the next instance. No guest may run on them again, or have been stopped half-way. */
  leave(): void
}

/** New ones, or those that the last instance of the plan left. */
export function takeMemories(plan: LinkPlan, blockLimit: number): InstanceMemories {
  const spare = spares.get(plan)
  spares.delete(plan)
  return spare?.blockLimit === blockLimit ? spare : new RenewableMemories(plan, blockLimit)
}

/** One for each plan: the engine on the event loop opens an instance after it has closed the last one. */
const spares = new WeakMap<LinkPlan, RenewableMemories>()

/** Beyond so many bytes a new memory costs less than to wipe one. */
const MOST_WIPED = 4_194_304

/** Bytes of a page of WebAssembly memory. */
const PAGE = 65_536

class RenewableMemories implements InstanceMemories {
  readonly blockLimit: number
  readonly #plan: LinkPlan
  readonly #modules = new Map<string, { readonly memory: WebAssembly.Memory; readonly bytes: number }>()
  #kernel: KernelMemory
  readonly #kernelBytes: number

  constructor(plan: LinkPlan, blockLimit: number) {
    this.#plan = plan
    this.blockLimit = blockLimit
    this.#kernel = openKernelMemory(blockLimit)
    this.#kernelBytes = this.#kernel.size
  }

  get kernel(): KernelMemory {
    return this.#kernel
  }

  ofModule(name: string, limits: MemoryLimits): WebAssembly.Memory {
    const known = this.#modules.get(name)
    if (known) return known.memory
    const memory = new WebAssembly.Memory(limits)
    this.#modules.set(name, { memory, bytes: limits.initial * PAGE })
    return memory
  }

  leave(): void {
    // A host function may have been given one of the guest's functions, and have kept it.
    if (this.#plan.hostFunctions.length > 0) return
    this.#renew()
    spares.set(this.#plan, this)
  }

  /**
   * A memory cannot shrink, so one that has grown is dropped. What is left is zero again, as when it was new; each call
   * has wiped the kernel's already.
   */
  #renew(): void {
    for (const [name, { memory, bytes }] of this.#modules) {
      if (memory.buffer.byteLength === bytes && bytes <= MOST_WIPED) new Uint8Array(memory.buffer).fill(0)
      else this.#modules.delete(name)
    }
    if (this.#kernel.size !== this.#kernelBytes) this.#kernel = openKernelMemory(this.blockLimit)
  }
}
