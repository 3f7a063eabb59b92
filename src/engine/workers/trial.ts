import { InstanceStartError } from '../../errors.ts'
import { mayStart } from '../stuck-threads.ts'
import { startedLate, toStartFailure } from './roster.ts'
import { startClock } from './start-clock.ts'
import { processStarts } from './start-queue.ts'
import { type ThreadOptions, WorkerThread } from './thread.ts'

/**
 * Opens an instance in a thread that is thrown away: on the event loop nothing could end a start that does not return.
 *
 * @param startTimeoutMs - How long that may take, from when its turn has come.
 * @throws what the start throws, {@link InstanceStartError} if it takes longer, and {@link ThreadsStuckError} if threads
 * of this plug-in are stuck.
 */
export async function tryInThread(options: ThreadOptions, startTimeoutMs: number): Promise<void> {
  let leave: () => void = () => undefined
  try {
    await new Promise<void>((resolve) => {
      leave = processStarts.enter({ isUrgent: () => true, begin: () => resolve() })
    })
    await mayStart({ digest: options.plugin.digest })
    await tryNow(options, startTimeoutMs)
  } finally {
    leave()
  }
}

async function tryNow(options: ThreadOptions, startTimeoutMs: number): Promise<void> {
  let stopClock: () => void = () => undefined
  try {
    await new Promise<void>((resolve, reject) => {
      const thread = new WorkerThread(options, {
        ready() {
          resolve()
          void thread.end()
        },
        asking: () => undefined,
        answered: () => undefined,
        broken: () => undefined,
        ended: (_thread, _unanswered, reason) => reject(toStartFailure(reason, options.plugin.name)),
      })
      stopClock = startClock(startTimeoutMs, () => {
        thread.fail(new InstanceStartError(options.plugin.name, startedLate(startTimeoutMs)))
        void thread.end()
      })
    })
  } finally {
    stopClock()
  }
}
