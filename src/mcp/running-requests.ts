import type { Client } from '../route/client.ts'
import type { RequestId } from './json-rpc.ts'
import type { AgentRelay } from './list-changes.ts'

/** A request that is being answered. */
export interface Cancellable {
  cancel(): void
}

/** Identifies a request of a client. */
export interface RequestName {
  readonly client: Client
  /** The session that the request names. It is only a name: the server keeps nothing for it. */
  readonly session: string | undefined
  readonly id: RequestId
}

/**
 * The requests of all clients that are being answered, so that another message can cancel one. Clients of one address choose the same
 * ids: without a session, a request is only cancelled if no other one has its name.
 */
export class RunningRequests {
  readonly #byKey = new Map<string, Cancellable[]>()
  readonly #relay: Pick<AgentRelay, 'cancel'> | undefined

  /** @param relay - Other processes, which may run the request. Default: there are none. */
  constructor(relay?: Pick<AgentRelay, 'cancel'>) {
    this.#relay = relay
  }

  /** @returns must be called when the request is answered. */
  add(name: RequestName, request: Cancellable): () => void {
    const key = keyOf(name)
    const named = this.#byKey.get(key)
    if (named) named.push(request)
    else this.#byKey.set(key, [request])
    return () => this.#remove(key, request)
  }

  #remove(key: string, request: Cancellable): void {
    const others = this.#byKey.get(key)?.filter((each) => each !== request) ?? []
    if (others.length === 0) this.#byKey.delete(key)
    else this.#byKey.set(key, others)
  }

  cancel(name: RequestName): void {
    const key = keyOf(name)
    if (this.#relay) this.#relay.cancel(key)
    else this.cancelHere(key)
  }

  /** The number of requests in this process with a key. */
  count(key: string): number {
    return this.#byKey.get(key)?.length ?? 0
  }

  /** Cancels the request with a key in this process, if it is the only one. */
  cancelHere(key: string): void {
    const [request, ...others] = this.#byKey.get(key) ?? []
    if (others.length === 0) request?.cancel()
  }
}

/** Of other names it is another text. `JSON.stringify` would take longer. */
function keyOf({ client, session = '', id }: RequestName): string {
  const kind = typeof id === 'number' ? '#' : '"'
  return `${client.kind} ${client.id.length} ${session.length} ${client.id}${session}${kind}${id}`
}
