import { watchdogTrouble } from '../engine/watchdog.ts'
import { MAX_STUCK_THREADS, stuckThreads } from '../platform/stuck-threads.ts'
import type { AdminFeature, ServerView } from './feature.ts'

/**
 * For supervisors, which have no token. `/healthz` fails if the process should be started again: as many threads as
 * may be cannot be ended, or the event loop is held, and there is no answer at all. Fewer cost their own routes only. `/readyz` fails if it should get no requests now.
 */
export const addHealth: AdminFeature = (app, { served }) => {
  const config = { needsNoToken: true } as const

  app.get('/healthz', { config }, (_request, reply) => {
    const stuck = stuckThreads()
    const healthy = stuck < MAX_STUCK_THREADS
    const reasons = healthy ? [] : [`threads that cannot be ended: ${stuck}`]
    reply.code(healthy ? 200 : 503).send({ healthy, reasons })
  })

  app.get('/readyz', { config }, (_request, reply) => {
    const reasons = whyNotReady(served)
    reply.code(reasons.length === 0 ? 200 : 503).send({ ready: reasons.length === 0, reasons })
  })
}

/** Why the server should get no requests now, in words; nothing: it is ready. */
export function whyNotReady({ state, routes }: ServerView): string[] {
  if (state === 'starting') return ['the routes are being loaded']
  if (state === 'draining') return ['the server is ending']
  const watchdog = watchdogTrouble()
  return [
    ...(watchdog === undefined ? [] : [watchdog]),
    ...routes.flatMap(({ url, host = '', trouble }) =>
      trouble === undefined ? [] : [`route ${host}${url}: ${trouble}`],
    ),
  ]
}
