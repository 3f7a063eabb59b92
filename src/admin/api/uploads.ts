import type { FastifyRequest } from 'fastify'
import { AdminBusyError } from '../../errors.ts'

/** How many bodies of the largest size may be in memory at once. */
const AT_ONCE = 4

/** What one request holds of the memory that there is for all. */
export interface Held {
  /** @throws {@link AdminBusyError} if there is not so much left. */
  add(bytes: number): void
  /** Gives all of it back. */
  release(): void
}

/** Bounds the bytes of bodies and downloads that the admin API has in memory at a time. */
export class Uploads {
  readonly #limit: number
  #held = 0

  /** @param uploadLimit - Most bytes of one of them. */
  constructor(uploadLimit: number) {
    this.#limit = AT_ONCE * uploadLimit
  }

  open(): Held {
    let own = 0
    return {
      add: (bytes) => {
        if (this.#held + bytes > this.#limit) throw new AdminBusyError(this.#limit)
        this.#held += bytes
        own += bytes
      },
      release: () => {
        this.#held -= own
        own = 0
      },
    }
  }
}

/** Bytes of a request's body: what it says, at most `limit`; `limit` if it does not say. */
export function bodyBytes({ headers }: FastifyRequest, limit: number): number {
  const length = headers['content-length']
  if (length !== undefined) return Math.min(Number(length), limit)
  return headers['transfer-encoding'] === undefined ? 0 : limit
}
