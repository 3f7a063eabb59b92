/** What has calls that can be ended before they are over. */
export interface Endable {
  /** Takes no more calls and ends those that it has; those who wait for them are told. */
  endCalls(): void
}

const open = new Set<Endable>()

/** @returns what is to be called when it is closed. */
export function trackEndable(endable: Endable): () => void {
  open.add(endable)
  return () => open.delete(endable)
}

/** Ends all calls of the process, which is about to end. */
export function endCalls(): void {
  for (const endable of open) endable.endCalls()
}
