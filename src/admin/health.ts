import type { FastifyInstance } from 'fastify'
import { watchdogTrouble } from '../engine/watchdog.ts'
import { descriptorTrouble } from '../platform/descriptors.ts'
import { MAX_STUCK_THREADS, stuckThreads } from '../platform/stuck-threads.ts'
import type { ProbeContext, ServerView } from './feature.ts'

/**
 * Health checks for supervisors, which have no token. `/healthz` fails if the process should be restarted: the maximum
 * number of stuck threads is reached. If the event loop is blocked, it does not answer at all. Fewer stuck threads
 * affect only their own routes. `/readyz` fails if the server should get no requests now.
 */
export function addHealth(app: FastifyInstance, { served }: Pick<ProbeContext, 'served'>): void {
  const config = { needsNoToken: true } as const

  app.get('/healthz', { config }, (_request, reply) => {
    const stuck = stuckThreads()
    const healthy = stuck < MAX_STUCK_THREADS
    const reasons = healthy ? [] : [`threads stuck in native calls: ${stuck}`]
    reply.code(healthy ? 200 : 503).send({ healthy, reasons })
  })

  app.get('/readyz', { config }, (_request, reply) => {
    const reasons = unreadyReasons(served)
    const processes = served.processes?.list.map(({ number, state, silentMs, problem }) => {
      return { number, state, silentMs: state === 'silent' ? silentMs : undefined, problem }
    })
    const ready = reasons.length === 0
    reply.code(ready ? 200 : 503).send({ ready, reasons, processes, fleet: fleetOf(served) })
  })
}

/** A node serves without the store of its fleet: it stays ready. */
function fleetOf({ fleet }: ServerView): object | undefined {
  if (!fleet) return undefined
  const { node, revision, newest, from, isConnected, refused } = fleet.status
  return { node, revision, newest, from, connected: isConnected, refused: refused?.code }
}

/** The maximum number of reasons in an answer. */
const MAX_REASONS = 100

/** The reasons that the server should get no requests now, as text. Empty: it is ready. */
export function unreadyReasons({ state, server, processes }: ServerView): string[] {
  if (state === 'starting') return ['the routes are being loaded']
  if (state === 'draining') return ['the server is shutting down']
  const reasons = [watchdogTrouble() ?? [], descriptorTrouble() ?? []].flat()
  if (processes && !processes.list.some(({ state }) => state === 'serving')) {
    const areSilent = processes.list.some(({ state }) => state === 'silent')
    reasons.push(areSilent ? 'the serving processes are silent' : 'no serving process runs')
  }
  for (const { number, trouble } of processes?.list ?? [])
    if (trouble !== undefined) reasons.push(`process ${number}: ${trouble}`)
  let more = 0
  for (const route of server.routes) {
    const { trouble } = route
    if (trouble === undefined) continue
    if (reasons.length >= MAX_REASONS) more++
    else reasons.push(`route ${route.host ?? ''}${route.url}: ${trouble}`)
  }
  return more > 0 ? [...reasons, `${more} more routes`] : reasons
}
