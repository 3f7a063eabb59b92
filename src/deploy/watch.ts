import { type Attempt, type Deployments, reload } from './deployments.ts'

/** How often files are looked at. */
const WATCH_MS = 200

/** A look takes at most so much of the time. */
const SHARE = 1 / 20

/** What cannot be served is reported when nothing has changed for so long: somebody may still be writing. */
const PATIENCE_MS = 1_000

/**
 * Serves what changes in files. They are looked at again and again, because what tells of changes (inotify and its like)
 * does so on few network and container file systems, and not where a link leads elsewhere.
 *
 * @returns Ends it.
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
