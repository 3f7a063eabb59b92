/** How long an instance is used. */
export interface Isolation {
  /** `reuse`: its memory and globals stay from call to call. `fresh`: each call has an instance of its own. */
  readonly isolation: 'reuse' | 'fresh'
  /** After how many calls it is replaced. */
  readonly recycle?: number | undefined
  /** Beyond how many bytes of memory it is replaced: memory never shrinks. */
  readonly recycleMemory: number
  /** If it also has grown by so many bytes since it was opened. Default: 0. */
  readonly recycleGrowth?: number
}

/**
 * Whether an instance that has just ended a call has had its last.
 *
 * @param memoryBytes - Its memory now.
 * @param bytesAtOpen - Its memory when it was opened.
 */
export function isWorn(
  { isolation, recycle, recycleMemory, recycleGrowth = 0 }: Isolation,
  memoryBytes: number,
  calls: number,
  bytesAtOpen: number,
): boolean {
  return (
    isolation === 'fresh' ||
    (recycle !== undefined && calls >= recycle) ||
    (memoryBytes > recycleMemory && memoryBytes > bytesAtOpen + recycleGrowth)
  )
}
