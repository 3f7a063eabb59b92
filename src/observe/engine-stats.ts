/** An engine's current state and its counters since it was opened. Computed on each read. */
export interface EngineStats {
  /** Queued calls. */
  readonly waiting: number
  /** Calls assigned to instances: on the event loop one, or all whose guests are suspended; a thread may have some in advance. */
  readonly running: number
  /** Open instances, one per thread, including spare ones. */
  readonly instances: number
  /** Memory of the guests' modules, as far as they export it. */
  readonly guestBytes: number
  /** Memory that the runtime holds for them. */
  readonly kernelBytes: number
  /** Instances replaced at the end of their lifetime: `fresh`, `recycle`, `recycleMemory`. */
  readonly recycled: number
  /** Instances and threads replaced after a failure or timeout. */
  readonly restarted: number
  /** Guests terminated at their deadline. */
  readonly timeouts: number
  /** Stuck threads of this plug-in at this route, including those of earlier engines and of trial starts. */
  readonly stuck: number
  /** Dropped log lines of guests. */
  readonly droppedLines: number
  /** Checks for interrupts of guests with a budget. */
  readonly checks: number
  /** Whether calls are refused because no instance can be started. */
  readonly isBreakerOpen: boolean
}

export const NO_STATS: EngineStats = {
  waiting: 0,
  running: 0,
  instances: 0,
  guestBytes: 0,
  kernelBytes: 0,
  recycled: 0,
  restarted: 0,
  timeouts: 0,
  stuck: 0,
  droppedLines: 0,
  checks: 0,
  isBreakerOpen: false,
}

/** Adds two statistics. Returns one unchanged if the other is empty. */
export function addStats(one: EngineStats, other: EngineStats): EngineStats {
  if (one === NO_STATS) return other
  if (other === NO_STATS) return one
  return {
    waiting: one.waiting + other.waiting,
    running: one.running + other.running,
    instances: one.instances + other.instances,
    guestBytes: one.guestBytes + other.guestBytes,
    kernelBytes: one.kernelBytes + other.kernelBytes,
    recycled: one.recycled + other.recycled,
    restarted: one.restarted + other.restarted,
    timeouts: one.timeouts + other.timeouts,
    stuck: one.stuck + other.stuck,
    droppedLines: one.droppedLines + other.droppedLines,
    checks: one.checks + other.checks,
    isBreakerOpen: one.isBreakerOpen || other.isBreakerOpen,
  }
}

/** The counters of a closed engine: nothing is open or queued. */
export function withoutPresent(stats: EngineStats): EngineStats {
  const { recycled, restarted, timeouts, droppedLines, checks } = stats
  return { ...NO_STATS, recycled, restarted, timeouts, droppedLines, checks }
}
