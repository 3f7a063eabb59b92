import type { Worker } from 'node:worker_threads'
import type { Log } from '../log/guest-log.ts'

/** Whose work a thread does: for the log, and for the limits of stuck threads. */
export interface ThreadLabel {
  /** Host and URL of the route. */
  readonly route?: string | undefined
  /** Name of the plug-in. */
  readonly plugin?: string | undefined
  /** SHA-256 of the plug-in's main module, in hex. */
  readonly digest?: string | undefined
}

/** Threads that have not ended. */
const threads = new Map<Worker, ThreadLabel>()

/** Those of them that were told to, in vain. */
const stuck = new Set<Worker>()

/** To be told of each thread that runs what is not ours: the process ends without it if need be. */
export function trackThread(worker: Worker, label: ThreadLabel = {}): void {
  threads.set(worker, label)
  worker.once('exit', () => {
    threads.delete(worker)
    stuck.delete(worker)
  })
}

/**
 * Ends a thread, whatever it runs: JavaScript and WebAssembly stop within milliseconds. What cannot be stopped is a
 * native call that waits, such as `fs.readSync` of a pipe: its thread is written off, and logged once.
 *
 * @param worker - One that is tracked.
 * @returns false if it has not ended after `limitMs`.
 */
export async function terminateOrWriteOff(worker: Worker, log: Log, limitMs = 2_000): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), limitMs)
  })
  const hasEnded = await Promise.race([worker.terminate().then(() => true), late])
  clearTimeout(timer)
  if (!hasEnded && threads.has(worker) && !stuck.has(worker)) {
    stuck.add(worker)
    log.error(
      { thread: worker.threadId, ...threads.get(worker), limitMs },
      'a thread cannot be ended: it waits in a native call',
    )
  }
  return hasEnded
}

/** {@link terminateOrWriteOff} for all that are left. */
export async function terminateThreads(log: Log, limitMs: number): Promise<void> {
  await Promise.all([...threads.keys()].map((worker) => terminateOrWriteOff(worker, log, limitMs)))
}

/** How many threads were written off and have not ended since. */
export function stuckThreads(): number {
  return stuck.size
}
