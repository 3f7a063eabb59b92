import { backoffMs } from '../platform/event-loop.ts'
import { type Attempt, type Deployments, reload } from './deployments.ts'

/** The polling interval. */
const WATCH_MS = 200

/** The maximum share of time spent on polling. */
const SHARE = 1 / 20

/**
 * The pauses before a failed change is made again: the first and the longest. The first failure is reported after the first
 * pause: the files may still be being written.
 */
const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 60_000

/**
 * Applies changes of files. It polls, because notifications (inotify and the like) are missing on most network and
 * container file systems, and where a link changes its target. A change that fails is made again: its reason may pass. So is
 * a reload that was requested in another way, unless new tags have requested it: those are looked at again.
 *
 * @returns a function that stops it.
 */
export function watchFiles(deployments: Deployments): () => void {
  let timer: NodeJS.Timeout | undefined
  let isEnded = false
  let failures = 0
  let retryAt = 0
  /** The first failure, until it is reported. */
  let failed: Attempt | undefined
  /** The message that was reported last: one that stays the same is reported once. */
  let told: string | undefined

  const tell = (attempt: Attempt) => {
    const message = attempt.record.error?.message
    if (message !== told) deployments.report(attempt)
    told = message
  }
  const change = async () => {
    const attempt = await deployments.attempt(reload, 'files')
    if (isEnded) return
    failures = attempt.deployment ? 0 : failures + 1
    retryAt = performance.now() + backoffMs(failures, FIRST_RETRY_MS, LONGEST_RETRY_MS)
    if (failures === 1) failed = attempt
    else if (failures > 1) tell(attempt)
  }
  const look = async () => {
    const begun = performance.now()
    const isChanged = deployments.files.changed().length > 0
    const tookMs = performance.now() - begun
    const { behind } = deployments
    if (isChanged) {
      failures = 0
      failed = undefined
      told = undefined
      await change()
    } else if (behind?.of === 'files' && (failures === 0 || begun >= retryAt)) {
      if (failed) tell(failed)
      else told ??= behind.message // whoever requested it was told
      failed = undefined
      await change()
    }
    if (!isEnded) timer = setTimeout(look, Math.max(WATCH_MS, tookMs / SHARE))
  }
  timer = setTimeout(look, WATCH_MS)

  return () => {
    isEnded = true
    clearTimeout(timer)
  }
}
