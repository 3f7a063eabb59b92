import { setTimeout as sleep } from 'node:timers/promises'
import { DownloadTimeoutError, RegistryUnreachableError } from '../../errors/errors.ts'

/** One operation of a registry's client, which may take several requests. */
export interface Operation {
  /** The reference in messages. */
  readonly reference: string
  /** Aborted at the deadline, or by the caller. */
  readonly signal: AbortSignal
  /** Time until the deadline. */
  remainingMs(): number
}

/** Limits of operations. */
export interface OperationLimits {
  readonly timeoutMs: number
  /** Aborts the operation. */
  readonly signal: AbortSignal | undefined
}

/**
 * Runs an operation within its deadline.
 *
 * @throws {@link DownloadTimeoutError} at the deadline.
 * @throws the reason of the caller's signal.
 */
export async function withDeadline<Result>(
  reference: string,
  { timeoutMs, signal }: OperationLimits,
  run: (operation: Operation) => Promise<Result>,
): Promise<Result> {
  signal?.throwIfAborted()
  const ended = new AbortController()
  const end = () => ended.abort()
  const startMs = performance.now()
  const timer = setTimeout(end, timeoutMs)
  signal?.addEventListener('abort', end)
  const remainingMs = () => timeoutMs - (performance.now() - startMs)
  try {
    return await run({ reference, signal: ended.signal, remainingMs })
  } catch (error) {
    signal?.throwIfAborted()
    throw ended.signal.aborted ? new DownloadTimeoutError(reference, timeoutMs) : error
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', end)
  }
}

/** Waits for work that other operations share: this one stops waiting at its own deadline. */
export function awaitShared<Result>({ signal }: Operation, work: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** A failure that may be over at the next attempt. */
export class TemporaryFailure extends Error {
  /** The time that the registry asks to wait. */
  readonly retryAfterMs: number
  /** Whether the registry did nothing: there were too many requests. */
  readonly isOverload: boolean

  constructor(reason: string, retryAfterMs = 0, isOverload = false, options?: ErrorOptions) {
    super(reason, options)
    this.retryAfterMs = retryAfterMs
    this.isOverload = isOverload
  }
}

/**
 * Repeats what fails with a {@link TemporaryFailure}, after each of the delays. A delay varies at random between its half and
 * its whole, so that many nodes do not repeat at the same moment. A registry may ask for a longer one.
 *
 * @param isRepeatable - Whether an attempt may be repeated that may have had an effect.
 * @throws {@link RegistryUnreachableError} after the last attempt, or at once if the next would be after the deadline.
 */
export async function repeat<Result>(
  { reference, signal, remainingMs }: Operation,
  delaysMs: readonly number[],
  isRepeatable: boolean,
  attempt: () => Promise<Result>,
): Promise<Result> {
  for (let repeats = 0; ; repeats++) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof TemporaryFailure) || signal.aborted) throw error
      const delayMs = isRepeatable || error.isOverload ? delaysMs[repeats] : undefined
      if (delayMs === undefined)
        throw new RegistryUnreachableError(reference, error.message, { cause: error })
      const waitMs = Math.max(error.retryAfterMs, delayMs * (0.5 + Math.random() / 2))
      if (waitMs >= remainingMs()) {
        const reason = `${error.message}, and the next attempt would be after the deadline`
        throw new RegistryUnreachableError(reference, reason, { cause: error })
      }
      await sleep(waitMs, undefined, { signal })
    }
  }
}
