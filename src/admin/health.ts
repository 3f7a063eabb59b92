import type { AdminRoom } from './room.ts'
import type { Served } from './served.ts'

/** For supervisors, which have no token: `/healthz` fails if the process should be started again, `/readyz` if it should get no requests now. */
export const addHealth: AdminRoom = (app, { served }) => {
  app.get('/readyz', { config: { needsNoToken: true } }, (_request, reply) => {
    const reasons = whyNotReady(served)
    reply.code(reasons.length === 0 ? 200 : 503).send({ ready: reasons.length === 0, reasons })
  })
}

/** In words; none: it is ready. */
export function whyNotReady({ state, routes }: Served): string[] {
  if (state === 'starting') return ['the routes are being loaded']
  if (state === 'draining') return ['the server is ending']
  return routes.flatMap(({ url, trouble }) => (trouble === undefined ? [] : [`route ${url}: ${trouble}`]))
}
