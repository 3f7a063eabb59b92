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
