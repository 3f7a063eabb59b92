/**
 * Waits for something until a signal says that nobody wants it any more. What was waited for goes on: to end it is up to
 * whoever has begun it.
 *
 * @throws what it throws, and the reason of the signal.
 */
export async function unlessAborted<Result>(work: Promise<Result>, signal?: AbortSignal): Promise<Result> {
  if (!signal) return work
  let stop: () => void = () => undefined
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
  work.catch(() => undefined) // nobody may wait for it any more
  try {
    return await Promise.race([stopped, work])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
