import type { RouteCaller } from '../route/callable-route.ts'
import type { Grant } from './access.ts'
import type { Members, RequestId } from './json-rpc.ts'
import type { Questions } from './questions.ts'
import type { Revision } from './revisions.ts'
import type { RequestHeaders } from './transport-headers.ts'

/** The request of a client, as far as it matters for the answer. */
export interface Exchange {
  readonly id: RequestId
  readonly revision: Revision
  /** Request headers to compare with the message; undefined over stdio. */
  readonly headers: RequestHeaders
  /** `_meta` of its params. */
  readonly meta: Members
  /** The message. */
  readonly text: string
  readonly caller: RouteCaller
  /** What a guest asks the client. undefined: nothing can be asked. */
  readonly questions: Questions | undefined
  readonly grant: Grant
  /** Whether the call is one of a task. */
  readonly isTask?: true
  /** Whether the client gets messages about changed lists without asking for them. */
  readonly hasSession: boolean
  /** Whether the client wants log messages of a level. undefined: it wants none. */
  readonly wantsLevel: ((level: unknown) => boolean) | undefined
  /** Sends a notification to the client, before the result. @param params - JSON on one line. */
  notify(method: string, params: string): void
}
