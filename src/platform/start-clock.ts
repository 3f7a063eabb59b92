/** Parts of the limit in which it is counted. */
const TICKS = 20

/**
 * Calls back when `limitMs` are over, in which the event loop turned: while it is held nothing can be noticed to have
 * started.
 *
 * @returns stops it.
 */
export function startClock(limitMs: number, onOver: () => void): () => void {
  const tickMs = Math.max(1, limitMs / TICKS)
  let leftMs = limitMs
  let last = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    leftMs -= Math.min(now - last, 2 * tickMs)
    last = now
    if (leftMs > 0) return
    clearInterval(timer)
    onOver()
  }, tickMs)
  return () => clearInterval(timer)
}
