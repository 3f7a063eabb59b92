/** Milliseconds on a monotonic clock shared by all threads of the process. */
export function monotonicMs(): number {
  return performance.now() + shift
}

/**
 * `performance.now()` starts with the thread. A thread may be stopped between the two reads of the clock, which makes the
 * difference smaller: the largest of several is right.
 */
const shift = Math.max(
  ...Array.from({ length: 8 }, () => Number(process.hrtime.bigint()) / 1e6 - performance.now()),
)
