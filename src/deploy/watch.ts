import { type Attempt, type Deployments, reload } from './deployments.ts'

/** The polling interval. */
const WATCH_MS = 200

/** The maximum share of time spent on polling. */
const SHARE = 1 / 20

/** A failure is reported after this much time without changes: the files may still be being written. */
const PATIENCE_MS = 1_000

/**
 * Applies changes of files. It polls, because notifications (inotify and the like) are missing on most network and
 * container file systems, and where a link changes its target.
 *
 * @returns a function that stops it.
 */
export function watchFiles(deployments: Deployments): () => void {
  let timer: NodeJS.Timeout | undefined
  let isEnded = false
  let failed: { attempt: Attempt; at: number } | undefined

  const look = async () => {
    const begun = performance.now()
    const isChanged = deployments.files.changed().length > 0
    const tookMs = performance.now() - begun
    if (isChanged) {
      const attempt = await deployments.attempt(reload, 'files', { isOfFiles: true })
      failed = attempt.deployment ? undefined : { attempt, at: performance.now() }
    } else if (failed && performance.now() - failed.at >= PATIENCE_MS) {
      if (!isEnded) deployments.report(failed.attempt)
      failed = undefined
    }
    if (!isEnded) timer = setTimeout(look, Math.max(WATCH_MS, tookMs / SHARE))
  }
  timer = setTimeout(look, WATCH_MS)

  return () => {
    isEnded = true
    clearTimeout(timer)
  }
}
