import { InstanceStartError } from '../../errors/errors.ts'
import { startClock, unlessAborted } from '../../platform/async-work.ts'
import { mayStart } from '../../platform/stuck-threads.ts'
import { processStarts, startedLate, toStartFailure } from './roster.ts'
import { type ThreadOptions, WorkerThread } from './thread.ts'

/**
 * Opens an instance in a thread that is thrown away: on the event loop nothing could end a start that does not return.
 *
 * @param startTimeoutMs - How long that may take, from when its turn has come.
 * @param signal - Ends it.
 * @returns how long the instance took to open, in ms: as long as it would have held the event loop.
 * @throws what the start throws, {@link InstanceStartError} if it takes longer, and {@link ThreadsStuckError} if threads
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
    void thread?.end() // nobody may wait for it any more
    throw error
  } finally {
    stopClock()
  }
}
