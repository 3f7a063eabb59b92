import { InstanceStartError } from '../../errors/errors.ts'
import { startClock, unlessAborted } from '../../platform/async-work.ts'
import { mayStart } from '../../platform/stuck-threads.ts'
import { processStarts, startedLate, toStartFailure } from './roster.ts'
import { type ThreadOptions, WorkerThread } from './thread.ts'

/**
 * Opens an instance in a throwaway thread: on the event loop, a start that does not return could not be ended.
 *
 * @param startTimeoutMs - Time limit, counted from its turn.
 * @param signal - Aborts it.
 * @returns the time that opening the instance took, in ms: it would have blocked the event loop as long.
 * @throws the error of the start, {@link InstanceStartError} if it takes longer, and {@link ThreadsStuckError} if threads
 * of this plug-in are stuck; the reason of the signal.
 */
export async function tryInThread(
  options: ThreadOptions,
  startTimeoutMs: number,
  signal?: AbortSignal,
): Promise<number> {
  let leave: () => void = () => undefined
  try {
    const turn = new Promise<void>((resolve) => {
      leave = processStarts.enter({ isUrgent: () => true, begin: () => resolve() })
    })
    await unlessAborted(turn, signal)
    await unlessAborted(mayStart({ digest: options.plugin.digest }), signal)
    return await tryNow(options, startTimeoutMs, signal)
  } finally {
    leave()
  }
}

async function tryNow(
  options: ThreadOptions,
  startTimeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  let stopClock: () => void = () => undefined
  let thread: WorkerThread | undefined
  try {
    const started = new Promise<number>((resolve, reject) => {
      const own = new WorkerThread(options, {
        ready() {
          resolve(own.startMs)
          void own.end()
        },
        free: () => undefined,
        asking: () => undefined,
        answered: () => undefined,
        broken: () => undefined,
        ended: (_thread, _unanswered, reason) => reject(toStartFailure(reason, options.plugin.name)),
      })
      thread = own
      stopClock = startClock(startTimeoutMs, () => {
        own.fail(new InstanceStartError(options.plugin.name, startedLate(startTimeoutMs)))
        void own.end()
      })
    })
    return await unlessAborted(started, signal)
  } catch (error) {
    void thread?.end() // the caller may have gone
    throw error
  } finally {
    stopClock()
  }
}
