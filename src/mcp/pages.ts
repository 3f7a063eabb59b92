import { createHash } from 'node:crypto'
import { type Members, RPC_CODES, RpcError } from './json-rpc.ts'

/** A page of a list. */
interface Page {
  readonly items: readonly Members[]
  /** Leads to the next page. undefined: this is the last. */
  readonly nextCursor: string | undefined
}

/**
 * A list in pages. A cursor belongs to the list that it was made for: after a change of the list it is refused, and the client
 * begins again.
 */
export class Pages {
  readonly #items: readonly Members[]
  readonly #pageSize: number
  readonly #fingerprint: string

  constructor(items: readonly Members[], pageSize: number) {
    this.#items = items
    this.#pageSize = pageSize
    this.#fingerprint = createHash('sha256').update(JSON.stringify(items)).digest('base64url').slice(0, 12)
  }

  /** @throws {@link RpcError} if the cursor is not one of this list. */
  at(cursor: unknown): Page {
    const from = this.#startOf(cursor)
    const end = from + this.#pageSize
    return {
      items: this.#items.slice(from, end),
      nextCursor: end < this.#items.length ? `${this.#fingerprint}.${end}` : undefined,
    }
  }

  #startOf(cursor: unknown): number {
    if (cursor === undefined || cursor === null) return 0 // some clients write what they leave out
    const text = typeof cursor === 'string' ? cursor : ''
    const [, fingerprint, digits] = /^([\w-]{12})\.(\d{1,6})$/.exec(text) ?? []
    const start = Number(digits)
    if (fingerprint === this.#fingerprint && start < this.#items.length && start % this.#pageSize === 0)
      return start
    throw new RpcError(
      RPC_CODES.invalidParams,
      'The cursor is not valid for this list: start with the first page',
      200,
    )
  }
}
