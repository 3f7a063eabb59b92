import closeWithGrace from 'close-with-grace'
import type { FastifyBaseLogger } from 'fastify'
import type { DrainOptions } from './drain.ts'
import type { RunningServer } from './server.ts'

/** How often to look whether the parent is still there. */
const PARENT_CHECK_MS = 250

/**
 * Ends the process in good order on SIGTERM and SIGINT, and at once on a second signal.
 *
 * @param parentId - Tells the process id of the parent. Given, the server also ends when its parent does: npx ends on
 * SIGTERM and leaves its child running.
 */
export function endWithSignals(
  server: RunningServer,
  { drainMs, graceMs }: DrainOptions,
  log: FastifyBaseLogger,
  parentId?: () => number,
): void {
  // A little more than the server takes for itself: this limit ends the process the hard way.
  const delay = drainMs + graceMs + 1_000
  const { close } = closeWithGrace({ delay, logger: log }, async ({ err, signal }) => {
    if (err) log.fatal({ err }, 'an error that nothing handles')
    log.info({ signal, drainMs, graceMs }, 'closing')
    await server.drain()
    log.info('closed')
  })

  if (!parentId) return
  const parent = parentId()
  const timer = setInterval(() => {
    if (parentId() === parent) return
    clearInterval(timer)
    log.info('the process that started this one is gone')
    close()
  }, PARENT_CHECK_MS).unref()
}
