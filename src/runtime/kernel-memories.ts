import type { RecyclableModule } from '../plugin/plugin.ts'
import { type KernelMemory, openKernelMemory } from './kernel-memory.ts'
import type { LinkPlan } from './link-plan.ts'
import { RecycledMemory, Worth } from './recycled-memory.ts'

/**
 * The memories of an instance: the kernel's, and those of modules that import theirs. They are the dear part of it:
 * each costs system calls, and V8 collects all garbage after each 64 MiB of new ones, whatever was touched of them.
 */
export interface InstanceMemories {
  readonly kernel: KernelMemory
  /** The memory of a module: zero, and of its initial size, or larger if it cannot tell. */
  ofModule(name: string, module: RecyclableModule): WebAssembly.Memory
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

class RenewableMemories implements InstanceMemories {
  readonly blockLimit: number
  readonly #plan: LinkPlan
  readonly #modules = new Map<string, RecycledMemory>()
  #kernel: KernelMemory
  #kernelWorth: Worth

  constructor(plan: LinkPlan, blockLimit: number) {
    this.#plan = plan
    this.blockLimit = blockLimit
    this.#kernel = openKernelMemory(blockLimit)
    this.#kernelWorth = new Worth(this.#kernel.size)
  }

  get kernel(): KernelMemory {
    return this.#kernel
  }

  ofModule(name: string, module: RecyclableModule): WebAssembly.Memory {
    const known = this.#modules.get(name)
    if (known) return known.memory
    const made = new RecycledMemory(module)
    this.#modules.set(name, made)
    return made.memory
  }

  leave(): void {
    // A host function may have been given one of the guest's functions, and have kept it.
    if (this.#plan.hostFunctions.length > 0) return
    this.#renew()
    spares.set(this.#plan, this)
  }

  /** What is left is zero again, as when it was new; each call has wiped the kernel's already. */
  #renew(): void {
    for (const [name, memory] of this.#modules) if (!memory.renew()) this.#modules.delete(name)
    if (this.#kernelWorth.isKept(this.#kernel.size)) return
    this.#kernel = openKernelMemory(this.blockLimit)
    this.#kernelWorth = new Worth(this.#kernel.size)
  }
}
