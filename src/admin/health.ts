import { stuckThreads } from '../engine/stuck-threads.ts'
import { whyNotReady } from './readiness.ts'
import type { AdminRoom } from './room.ts'

/**
 * For supervisors, which have no token. `/healthz` fails if the process should be started again: threads cannot be
 * ended, or the event loop is held, and there is no answer at all. `/readyz` fails if it should get no requests now.
 */
export const addHealth: AdminRoom = (app, { served }) => {
  const config = { needsNoToken: true } as const

  app.get('/healthz', { config }, (_request, reply) => {
    const stuck = stuckThreads()
    const reasons = stuck === 0 ? [] : [`threads that cannot be ended: ${stuck}`]
    reply.code(stuck === 0 ? 200 : 503).send({ healthy: stuck === 0, reasons })
  })

  app.get('/readyz', { config }, (_request, reply) => {
    const reasons = whyNotReady(served)
    reply.code(reasons.length === 0 ? 200 : 503).send({ ready: reasons.length === 0, reasons })
  })
}
