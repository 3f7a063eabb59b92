import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { errorFields } from '../errors/failure.ts'
import { errorCode } from '../platform/system-errors.ts'
import { type Attempt, type Deployments, reload } from './deployments.ts'

/** Intervals vary by this share in both directions, so that many nodes do not ask at the same time. */
const JITTER = 0.1

/** A failure that stays the same is reported once. */
interface Reported {
  readonly digests: string
  readonly message: string | undefined
}

/**
 * Follows the tags of registries: asks each registry for the digests that the tags in use have now, and applies a change
 * when one is new. A change that fails is tried again at the next poll, because a signature may be pushed after its
 * artifact.
 *
 * @param pollMs - The mean interval.
 * @returns a function that stops it.
 */
export function followTags(deployments: Deployments, pollMs: number, log: FastifyBaseLogger): () => void {
  const ended = new AbortController()
  const { signal } = ended
  void follow(deployments, pollMs, log, signal).catch((error) => {
    if (!signal.aborted) log.error(errorFields(error), 'tags of registries are no longer followed')
  })
  return () => ended.abort()
}

async function follow(
  deployments: Deployments,
  pollMs: number,
  log: FastifyBaseLogger,
  signal: AbortSignal,
): Promise<void> {
  let failed: Reported | undefined
  let unanswered = new Map<string, unknown>()
  let waitMs = pollMs * Math.random() // nodes that start together poll at different times
  for (;;) {
    await sleep(waitMs, undefined, { signal, ref: false })
    waitMs = pollMs * (1 + JITTER * (2 * Math.random() - 1))
    const { digests, failures } = await newDigests(deployments, signal)
    for (const [reference, error] of failures)
      if (!isSame(unanswered.get(reference), error)) log.warn({ reference }, (error as Error).message)
    unanswered = failures
    if (digests.size === 0 && deployments.behind?.of !== 'tags') continue // also what could not be served, and is gone
    const key = JSON.stringify([...digests])
    if (failed?.digests !== key) {
      for (const [reference, to] of digests)
        log.info({ reference, from: deployments.tags.get(reference), to }, 'the tag has a new digest')
    }
    const attempt = await deployments.attempt(reload, 'registry', { digests, signal })
    failed = reportOnce(
      attempt,
      { digests: key, message: attempt.record.error?.message },
      failed,
      deployments,
    )
  }
}

/** Tags whose digests differ from those of the last reading, and the reasons that registries gave no answer. */
async function newDigests(
  deployments: Deployments,
  signal: AbortSignal,
): Promise<{ digests: Map<string, string>; failures: Map<string, unknown> }> {
  const digests = new Map<string, string>()
  const failures = new Map<string, unknown>()
  for (const [reference, before] of deployments.tags) {
    try {
      const now = await deployments.resolveTag(reference, signal)
      if (now !== before) digests.set(reference, now)
    } catch (error) {
      signal.throwIfAborted()
      failures.set(reference, error)
    }
  }
  return { digests, failures }
}

/** Whether a tag fails as before. The words of a registry, such as the id of a request, may differ each time. */
function isSame(before: unknown, error: unknown): boolean {
  return before !== undefined && errorCode(before) === errorCode(error)
}

function reportOnce(
  attempt: Attempt,
  now: Reported,
  before: Reported | undefined,
  deployments: Deployments,
): Reported | undefined {
  if (attempt.deployment) return undefined
  if (now.digests !== before?.digests || now.message !== before.message) deployments.report(attempt)
  return now
}
