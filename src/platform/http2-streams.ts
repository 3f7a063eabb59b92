import type { Http2Session, Http2Stream } from 'node:http2'

/**
 * Gives a new connection a table of its open streams that keeps no closed ones.
 *
 * Node's table is a `Map`. When a map grows, or drops its deleted entries, its old table keeps what it had, and the new
 * table. Once a garbage collection has moved a table to the old generation, everything in later tables lives until the
 * next major collection, and V8 copies it twice: all streams, with their requests and answers.
 *
 * Node.js 20 to 26. No upstream issue is known. Remove it when Node's streams do not outlive a minor collection
 * (`test/system/http2-memory.test.ts` passes without it).
 */
export function keepOpenStreamsOnly(session: Http2Session): void {
  const key = Object.getOwnPropertySymbols(session).find(({ description }) => description === 'state')
  const state: { streams?: { size?: number } } | undefined = key && Reflect.get(session, key)
  if (state?.streams?.size === 0) state.streams = new OpenStreams()
}

/** Slots for streams whose ids are close to each other. */
const SLOTS = 128

/**
 * Streams by id, in slots instead of a table. A client's ids are odd and rise, so two open streams have the same slot only if one is
 * much older; then the newer one is in the map.
 */
export class OpenStreams extends Map<number, Http2Stream> {
  readonly #slots = new Array<Http2Stream | undefined>(SLOTS).fill(undefined)
  #inSlots = 0

  override get size(): number {
    return super.size + this.#inSlots
  }

  override get(id: number): Http2Stream | undefined {
    const stream = this.#slots[slotOf(id)]
    return stream?.id === id ? stream : super.get(id)
  }

  /** @param id - A new one. */
  override set(id: number, stream: Http2Stream): this {
    const slot = slotOf(id)
    if (this.#slots[slot]) return super.set(id, stream)
    this.#slots[slot] = stream
    this.#inSlots++
    return this
  }

  override delete(id: number): boolean {
    const slot = slotOf(id)
    if (this.#slots[slot]?.id !== id) return super.delete(id)
    this.#slots[slot] = undefined
    this.#inSlots--
    return true
  }

  override forEach(visit: (stream: Http2Stream, id: number, streams: this) => void): void {
    for (const stream of this.#slots) if (stream?.id !== undefined) visit(stream, stream.id, this)
    super.forEach((stream, id) => void visit(stream, id, this))
  }
}

function slotOf(id: number): number {
  return (id >>> 1) % SLOTS
}
