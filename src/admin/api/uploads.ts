import type { IncomingMessage } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { AdminBusyError, AdminRequestError } from '../../errors/errors.ts'
import { isTooLarge, tooLarge } from '../../route/body.ts'

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

/**
 * Reads a body. To join the pieces of 27 MB at once would hold the event loop for 20 ms.
 *
 * @throws {@link BodyTooLargeError} if it has more bytes than `limit`, and {@link AdminRequestError} if it breaks off.
 */
export async function readBytes(body: IncomingMessage, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks = await readChunks(body, limit)
  const bytes = new Uint8Array(chunks.reduce((length, chunk) => length + chunk.length, 0))
  let at = 0
  let copied = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
    copied += chunk.length
    if (copied < SLICE_BYTES) continue
    copied = 0
    await nextTurn()
  }
  return bytes
}

/** Copied at a time: some 0.5 ms. */
const SLICE_BYTES = 1_048_576

function readChunks(body: IncomingMessage, limit: number): Promise<Uint8Array[]> {
  const declared = body.headers['content-length']
  const chunks: Uint8Array[] = []
  let length = 0
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      body.off('data', take).off('end', end)
      reject(error)
    }
    const take = (chunk: Uint8Array) => {
      length += chunk.length
      if (length > limit) fail(tooLarge(limit))
      else chunks.push(chunk)
    }
    const end = () => {
      const isWhole = declared === undefined || length === Number(declared)
      if (isWhole) resolve(chunks)
      else fail(new AdminRequestError('The body is not as long as its Content-Length'))
    }
    if (isTooLarge(body, limit)) fail(tooLarge(limit))
    else
      body
        .on('data', take)
        .once('end', end)
        .once('error', (error) => fail(broken(error)))
  })
}

/** What the HTTP server says of a body that is malformed or late has a status. */
function broken(error: Error & { statusCode?: number }): Error {
  return error.statusCode === undefined
    ? new AdminRequestError(`The body broke off: ${error.message}`)
    : error
}
