import type { Worker } from 'node:worker_threads'

/** How long a thread may take to end. */
const END_MS = 2_000

/** Ends a thread. @returns false if it does not end in time: one that waits in a native call cannot be ended. */
export async function terminateOrWriteOff(worker: Worker, limitMs = END_MS): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, limitMs, false)
  })
  const hasEnded = await Promise.race([worker.terminate().then(() => true), late])
  clearTimeout(timer)
  return hasEnded
}
