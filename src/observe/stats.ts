/** What an engine has at present, and what it has done since it was opened; told when somebody asks. */
export interface EngineStats {
  /** Calls that wait for an instance. */
  readonly waiting: number
  /** Calls that an instance has: on the event loop at most one; a thread may have some ahead. */
  readonly running: number
  /** Those that are open, one in each thread; spare ones too. */
  readonly instances: number
  /** Memory of the guests' modules. What they do not export cannot be seen. */
  readonly guestBytes: number
  /** Memory that the runtime holds for them. */
  readonly kernelBytes: number
  /** Instances that were replaced after they had served as long as they should: `fresh`, `recycle`, `recycleMemory`. */
  readonly recycled: number
  /** Instances and threads that were replaced because they failed, or ran too long. */
  readonly restarted: number
  /** Guests that were ended because they ran too long. */
  readonly timeouts: number
  /** Threads of this plug-in at this route that cannot be ended, those of earlier engines and of trials too. */
  readonly stuck: number
  /** Lines that guests logged beyond what they may. */
  readonly droppedLines: number
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
  isBreakerOpen: false,
}

/** Both together. */
export function addStats(one: EngineStats, other: EngineStats): EngineStats {
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
    isBreakerOpen: one.isBreakerOpen || other.isBreakerOpen,
  }
}

/** What counts on when the engine is closed: nothing is open any more, and nothing waits. */
export function withoutPresent(stats: EngineStats): EngineStats {
  const { recycled, restarted, timeouts, droppedLines } = stats
  return { ...NO_STATS, recycled, restarted, timeouts, droppedLines }
}
