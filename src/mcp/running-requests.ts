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
  readonly #byName = new Map<string, Set<Cancellable>>()
  readonly #relay: Pick<AgentRelay, 'cancel'> | undefined

  /** @param relay - Other processes, which may run the request. Default: there are none. */
  constructor(relay?: Pick<AgentRelay, 'cancel'>) {
    this.#relay = relay
  }

  /** @returns must be called when the request is answered. */
  add(name: RequestName, request: Cancellable): () => void {
    const key = keyOf(name)
    const named = this.#byName.get(key) ?? new Set()
    this.#byName.set(key, named.add(request))
    return () => {
      named.delete(request)
      if (named.size === 0) this.#byName.delete(key)
    }
  }

  cancel(name: RequestName): void {
    const key = keyOf(name)
    if (this.#relay) this.#relay.cancel(key)
    else this.cancelHere(key)
  }

  /** The number of requests in this process with a key. */
  count(key: string): number {
    return this.#byName.get(key)?.size ?? 0
  }

  /** Cancels the request with a key in this process, if it is the only one. */
  cancelHere(key: string): void {
    const [request, ...others] = this.#byName.get(key) ?? []
    if (others.length === 0) request?.cancel()
  }
}

function keyOf({ client, session, id }: RequestName): string {
  return JSON.stringify([client.kind, client.id, session, id])
}
