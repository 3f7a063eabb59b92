import type { Descriptor } from './descriptor.ts'
import { WasiError } from './errno.ts'

/** Most descriptors that a guest may have open at a time. Each may hold one of the host's, which all guests share. */
export const MAX_DESCRIPTORS = 128

/** The descriptors of a guest, by number. */
export class DescriptorTable {
  readonly #open = new Map<number, Descriptor>()

  has(fd: number): boolean {
    return this.#open.has(fd >>> 0)
  }

  get(fd: number): Descriptor {
    const descriptor = this.#open.get(fd >>> 0)
    if (!descriptor) throw new WasiError('EBADF')
    return descriptor
  }

  /** Refuses now what {@link add} would refuse, before the host opens anything. */
  checkRoom(): void {
    if (this.#open.size >= MAX_DESCRIPTORS) throw new WasiError('EMFILE')
  }

  /** @returns The lowest number that is free. */
  add(descriptor: Descriptor): number {
    this.checkRoom()
    let fd = 0
    while (this.#open.has(fd)) fd++
    this.#open.set(fd, descriptor)
    return fd
  }

  close(fd: number): void {
    const descriptor = this.get(fd)
    this.#open.delete(fd >>> 0)
    descriptor.close()
  }

  /** Gives `from` the number of `to`, which is closed. Both must be open. */
  renumber(from: number, to: number): void {
    const moved = this.get(from)
    const replaced = this.get(to)
    if (moved === replaced) return
    this.#open.delete(from >>> 0)
    this.#open.set(to >>> 0, moved)
    replaced.close()
  }

  closeAll(): void {
    for (const fd of [...this.#open.keys()]) this.close(fd)
  }
}
