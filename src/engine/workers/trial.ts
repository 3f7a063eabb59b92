import { MessageChannel, type Worker } from 'node:worker_threads'
import { fromFailure } from '../../errors/call-failure.ts'
import { InstanceStartError } from '../../errors/errors.ts'
import { startClock, unlessAborted } from '../../platform/event-loop.ts'
import { labelThread, mayStart, terminateOrWriteOff, trackThread } from '../../platform/stuck-threads.ts'
import { processStarts, startedLate, toStartFailure } from '../runners/runner-pool.ts'
import type { FromTrial, TrialStart } from './protocol.ts'
import { isOurs, type ThreadOptions } from './thread.ts'
import { newThread } from './thread-start.ts'
import { ThreadState } from './thread-state.ts'

/**
 * Opens an instance in a thread: on the event loop, a start that does not return could not be ended.
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
  // The one used last, so that others come to their end.
  const at = idleThreads.findLastIndex(({ runtime }) => runtime === options.runtime)
  const [thread = new TrialThread(options.runtime)] = at < 0 ? [] : idleThreads.splice(at, 1)
  const stopClock = startClock(startTimeoutMs, () => {
    thread.fail(new InstanceStartError(options.plugin.name, startedLate(startTimeoutMs)))
  })
  try {
    const startMs = await unlessAborted(thread.run(options), signal)
    // The user's functions may have left something behind.
    if (options.functions === undefined) thread.rest()
    else void thread.end(options)
    return startMs
  } catch (error) {
    const ended = thread.end(options)
    if (!signal?.aborted) await ended // a further trial must know whether the thread is stuck
    throw error
  } finally {
    stopClock()
  }
}

/** How long an idle thread waits for another plug-in. A thread takes 60 ms to start, and a trial 2 ms. */
const IDLE_MS = 10_000

/** Threads without a trial. */
const idleThreads: TrialThread[] = []

/** A thread that tries one plug-in at a time. Exported for tests. */
export class TrialThread {
  readonly runtime: ThreadOptions['runtime']
  readonly #worker: Worker
  #timer: NodeJS.Timeout | undefined
  #fail: (reason: Error) => void = () => undefined

  constructor(runtime: ThreadOptions['runtime']) {
    this.runtime = runtime
    this.#worker = newThread(runtime, 'wasm-serve trial')
    trackThread(this.#worker)
    this.#worker.on('error', (thrown: unknown) =>
      this.fail(thrown instanceof Error ? thrown : new Error(String(thrown))),
    )
    this.#worker.once('exit', (code) => {
      this.#leave()
      this.fail(new Error(`it exited with code ${code}`))
    })
  }

  /**
   * Tries a plug-in.
   *
   * @returns the time that opening the instance took, in ms.
   * @throws the error of the start; that of {@link fail}.
   */
  async run({ runtime: _, route, bridge, log, ...start }: ThreadOptions): Promise<number> {
    clearTimeout(this.#timer)
    this.#worker.ref()
    const { name, digest } = start.plugin
    labelThread(this.#worker, { route, plugin: name, digest })
    const threadState = new ThreadState()
    const host = new MessageChannel()
    const ended = new AbortController()
    const none = () => undefined
    bridge.serve(host.port1, threadState, ended.signal, none, none)
    let take: (message: FromTrial) => void = none
    try {
      return await new Promise<number>((resolve, reject) => {
        this.#fail = (reason) => reject(toStartFailure(reason, name))
        take = (message) => {
          if (!isOurs(message)) return
          if ('startMs' in message) resolve(message.startMs)
          else if ('startFailure' in message) this.fail(fromFailure(message.startFailure))
          else if ('line' in message) {
            const [level, fields, line] = message.line
            log[level](fields, line)
          }
        }
        this.#worker.on('message', take)
        const trial = { ...start, threadState: threadState.memory, host: host.port2 } satisfies TrialStart
        this.#worker.postMessage(trial, [host.port2])
      })
    } finally {
      this.#fail = none
      this.#worker.off('message', take)
      ended.abort()
      host.port1.close()
    }
  }

  /** Ends its trial with this reason. */
  fail(reason: Error): void {
    this.#fail(reason)
  }

  /** Waits for another plug-in, for some time. */
  rest(): void {
    this.#worker.unref()
    this.#timer = setTimeout(() => {
      this.#leave()
      void this.#worker.terminate()
    }, IDLE_MS).unref()
    idleThreads.push(this)
  }

  /** Terminates it, or gives it up. */
  async end({ log }: Pick<ThreadOptions, 'log'>): Promise<void> {
    await terminateOrWriteOff(this.#worker, log)
  }

  #leave(): void {
    const at = idleThreads.indexOf(this)
    if (at >= 0) idleThreads.splice(at, 1)
  }
}
