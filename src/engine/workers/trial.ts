import { InstanceStartError } from '../../errors.ts'
import { startedLate } from './roster.ts'
import { type ThreadOptions, WorkerThread } from './thread.ts'

/**
 * Opens an instance in a thread that is thrown away: on the event loop nothing could end a start that does not return.
 *
 * @param startTimeoutMs - How long that may take.
 * @throws what the start throws, and {@link InstanceStartError} if it takes longer.
 */
export async function tryInThread(options: ThreadOptions, startTimeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
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
        gone: () => undefined,
        ended: (_thread, _unanswered, reason) => reject(reason),
      })
      timer = setTimeout(() => {
        thread.fail(new InstanceStartError(options.plugin.name, startedLate(startTimeoutMs)))
        void thread.end()
      }, startTimeoutMs)
    })
  } finally {
    clearTimeout(timer)
  }
}
