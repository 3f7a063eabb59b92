import type { onRequestHookHandler, onSendHookHandler } from 'fastify'
import { CallTiming } from './call-timing.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** There on the routes of wasm-serve that tell how long their calls take. */
    callTiming?: CallTiming
    /** There if the calls of guests have spans. */
    outboundHeaders?: () => Readonly<Record<string, string>>
  }
}

/**
 * Hooks of a route that tells each client how long its call waited for an instance, and how long the guest ran, in
 * milliseconds: `Server-Timing: queue;dur=0.12, guest;dur=0.43`. Failures say it too; a request that asked for no call,
 * such as one with a body that is too large, is told nothing.
 */
export const timingHooks: {
  readonly onRequest: onRequestHookHandler
  readonly onSend: onSendHookHandler
} = {
  onRequest(request, _reply, done) {
    request.callTiming = new CallTiming()
    done()
  },
  onSend({ callTiming }, reply, _payload, done) {
    const header = callTiming && renderTiming(callTiming)
    if (header) reply.header('server-timing', header)
    done()
  },
}

/** A call that never began, because the queue was full, only waited. */
export function renderTiming({ queueMs, guestMs }: CallTiming): string {
  return [render('queue', queueMs), render('guest', guestMs)].filter(Boolean).join(', ')
}

function render(name: string, ms: number | undefined): string {
  return ms === undefined ? '' : `${name};dur=${Math.round(ms * 1_000) / 1_000}`
}
