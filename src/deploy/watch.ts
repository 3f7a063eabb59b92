import type { ChangeRecord } from './change-record.ts'
import type { Changer, MakeWanted, Wanted } from './changer.ts'

/** How often files are looked at. */
const LOOK_MS = 200

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
export function watchFiles<Made extends Wanted>(changer: Changer<Made>, make: MakeWanted<Made>): () => void {
  let timer: NodeJS.Timeout | undefined
  let isEnded = false
  let failed: { record: ChangeRecord; at: number } | undefined

  const look = async () => {
    const begun = performance.now()
    const isChanged = changer.files.changed().length > 0
    const tookMs = performance.now() - begun
    if (isChanged) {
      const record = await changer.tryChange('files', make)
      failed = record.ok ? undefined : { record, at: performance.now() }
      if (record.ok) changer.report(record)
    } else if (failed && performance.now() - failed.at >= PATIENCE_MS) {
      if (!isEnded) changer.report(failed.record)
      failed = undefined
    }
    if (!isEnded) timer = setTimeout(look, Math.max(LOOK_MS, tookMs / SHARE))
  }
  timer = setTimeout(look, LOOK_MS)

  return () => {
    isEnded = true
    clearTimeout(timer)
  }
}
