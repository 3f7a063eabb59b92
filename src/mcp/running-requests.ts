import type { Client } from '../route/client.ts'
import type { RequestId } from './json-rpc.ts'

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
    const [request, ...others] = this.#byName.get(keyOf(name)) ?? []
    if (others.length === 0) request?.cancel()
  }
}

function keyOf({ client, session, id }: RequestName): string {
  return JSON.stringify([client.kind, client.id, session, id])
}
