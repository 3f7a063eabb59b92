import type { Log } from '../observe/log/guest-log.ts'
import type { CallTiming } from '../route/call-timing.ts'

/** On whose behalf a call is made; a Fastify request is one. */
export interface Caller {
  /** Takes what the guest logs during the call. */
  readonly log: Log
  /** The request; whoever made it may go away while the call waits. */
  readonly raw?: { readonly socket: { readonly destroyed: boolean } }
  /** Run by the engine, for those who want to know how long the call takes. */
  callTiming?: CallTiming
  /** What the guest's HTTP requests carry on behalf of this call, unless it says otherwise: the context of a trace. */
  outboundHeaders?: () => Readonly<Record<string, string>>
}
