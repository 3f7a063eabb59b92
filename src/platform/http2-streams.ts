import type { Http2Session, Http2Stream } from 'node:http2'
import { Readable } from 'node:stream'

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

/** Pieces of up to this size are joined. */
const SMALL_BYTES = 1_024

/** The maximum size of what was joined. */
const JOINED_BYTES = 16_384

/** How long a piece waits for others, in ms. */
const JOIN_MS = 5

/** Small pieces of a stream that wait for others. */
interface SmallPieces {
  readonly bytes: Uint8Array
  length: number
  readonly timer: NodeJS.Timeout
}

const smallPieces = new WeakMap<Readable, SmallPieces>()

/**
 * The method `push` of a stream that joins small pieces while others have not been read.
 *
 * Node keeps a buffer for each DATA frame. It takes a hundred bytes and more besides those of the frame, and the windows of
 * HTTP/2 count only the latter: a stream whose frames have one byte takes 150 MB for a window of 1 MiB.
 *
 * Node.js 20 to 26. No upstream issue is known. Remove it when Node joins what waits.
 */
export function pushJoined(this: Readable, piece: unknown, encoding?: BufferEncoding): boolean {
  const waiting = smallPieces.get(this)
  const isSmall = piece instanceof Uint8Array && piece.length <= SMALL_BYTES
  if (!isSmall || (!waiting && this.readableLength === 0)) {
    if (waiting) pushSmall(this, waiting)
    return Readable.prototype.push.call(this, piece, encoding)
  }
  const fits = waiting && waiting.length + piece.length <= JOINED_BYTES
  if (waiting && !fits) pushSmall(this, waiting)
  const joined = waiting && fits ? waiting : beginJoining(this)
  joined.bytes.set(piece, joined.length)
  joined.length += piece.length
  return this.readableLength < this.readableHighWaterMark
}

function beginJoining(stream: Readable): SmallPieces {
  const timer = setTimeout(() => pushSmall(stream, begun), JOIN_MS)
  const begun = { bytes: new Uint8Array(JOINED_BYTES), length: 0, timer }
  smallPieces.set(stream, begun)
  return begun
}

function pushSmall(stream: Readable, { bytes, length, timer }: SmallPieces): void {
  clearTimeout(timer)
  smallPieces.delete(stream)
  if (!stream.destroyed) Readable.prototype.push.call(stream, Buffer.from(bytes.subarray(0, length)))
}
