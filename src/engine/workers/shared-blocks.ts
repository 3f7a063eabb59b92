import type { ByteSource } from '../../platform/chunks.ts'
import { joinKernelMemory, type KernelMemory, weigh } from '../../runtime/kernel-memory.ts'
import { newSharedMemory } from '../../runtime/kernel-module.ts'
import type { BlockMemories } from '../../runtime/runtime.ts'
import type { ThreadState } from './thread-state.ts'

/*
 * The memory of the kernel, which a thread's guest uses while it runs, and the main thread between two calls: it writes a
 * large input where the guest reads it, and copies a large output from where the guest left it. Only one of them uses the
 * memory at a time: see the owner of the blocks in `thread-state.ts`. A guest writes only into its blocks, and what the main
 * thread reads was checked by the kernel.
 */

/** A memory of a thread, as the thread posts it. */
export interface PostedBlocks {
  readonly blocks: WebAssembly.Memory
  /** 1 or more. */
  readonly number: number
}

/** Larger memories are not used again: they cannot shrink. */
const MAX_KEPT_BYTES = 16_777_216

/** The thread's side. It has one instance at a time, so one of its memories is used. */
export class GuestBlocks implements BlockMemories {
  readonly #threadState: ThreadState
  readonly #post: (message: PostedBlocks) => void
  #memory: KernelMemory | undefined
  #number = 0
  /** Whether no instance uses the memory. */
  #isFree = false

  constructor(threadState: ThreadState, post: (message: PostedBlocks) => void) {
    this.#threadState = threadState
    this.#post = post
  }

  open(blockLimit: number): KernelMemory {
    if (this.#memory && this.#isFree) {
      this.#isFree = false
      return this.#memory
    }
    const blocks = newSharedMemory(blockLimit)
    this.#memory = joinKernelMemory(blocks)
    this.#number++
    this.#post({ blocks, number: this.#number })
    return this.#memory
  }

  close(memory: KernelMemory): void {
    this.#isFree = memory === this.#memory && memory.size <= MAX_KEPT_BYTES
    if (!this.#isFree) weigh(memory.memory)
  }

  /** Waits until the main thread does not use the memory. */
  take(): void {
    this.#threadState.takeBlocks(this.#number)
  }

  /** The main thread has written the input of the call that runs now. @param isOpen - Whether an instance waits for it. */
  takeInput(isOpen: boolean): Uint8Array {
    this.#threadState.receiveBlocks()
    const input = this.#memory?.inputView() ?? NO_BYTES
    if (isOpen) return input
    // The start of the instance uses the memory.
    const copy = input.slice()
    this.#memory?.reset()
    return copy
  }

  /** Leaves an output to the main thread, which wipes the memory. @returns false if that is impossible. */
  leave(output: Uint8Array): boolean {
    return output.buffer === this.#memory?.memory.buffer && this.#threadState.leaveBlocks(this.#number)
  }

  /** Wipes the memory, and lets the main thread write the next input. */
  free(): void {
    this.#memory?.reset()
    if (this.#memory) this.#threadState.freeBlocks(this.#number)
  }
}

/** The main thread's side. */
export class HostBlocks {
  readonly #threadState: ThreadState
  #posted: PostedBlocks | undefined
  #memory: KernelMemory | undefined

  constructor(threadState: ThreadState) {
    this.#threadState = threadState
  }

  receive(posted: PostedBlocks): void {
    this.leave()
    this.#posted = posted
    this.#memory = undefined
    this.#threadState.knowBlocks(posted.number)
  }

  /** The thread has ended, or uses other blocks from now on. */
  leave(): void {
    if (this.#posted) weigh(this.#posted.blocks)
  }

  /** Writes the input of the next call. @returns false if that is impossible now. */
  place(input: ByteSource): boolean {
    if (!this.#posted || !this.#threadState.borrowBlocks(this.#posted.number)) return false
    this.#memory ??= joinKernelMemory(this.#posted.blocks)
    if (this.#memory.input(input)) return true
    this.#free(this.#memory, this.#posted)
    return false
  }

  /** A copy of the output that the thread has left. */
  takeOutput(): Uint8Array {
    if (!this.#posted) return NO_BYTES
    this.#memory ??= joinKernelMemory(this.#posted.blocks)
    const output = this.#memory.output()
    this.#free(this.#memory, this.#posted)
    return output
  }

  #free(memory: KernelMemory, { number }: PostedBlocks): void {
    memory.reset()
    this.#threadState.freeBlocks(number)
  }
}

const NO_BYTES = new Uint8Array()
