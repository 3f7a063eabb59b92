import type { IncomingMessage } from 'node:http'
import { BadRequestError } from '../../errors/errors.ts'
import { ChunkQueue } from '../../guest/streams/chunk-queue.ts'
import { hasBody, isTooLarge, restFrom, TURN_PIECES, tooLarge } from '../body.ts'

/** Reads the body of a request piece by piece. It keeps a bounded number of bytes: beyond, the client has to wait. */
export class BodyReader {
  readonly #request: IncomingMessage
  readonly #limit: number
  readonly #bufferBytes: number
  readonly #pieces = new ChunkQueue()
  #received = 0
  #pieceCount = 0
  #isReading = false
  #hasEnded = false
  #error: Error | undefined
  #notify: () => void = () => undefined

  /** @param limit - Maximum size of the body in bytes; 0: none. @param bufferBytes - Bytes that are kept. */
  constructor(request: IncomingMessage, limit: number, bufferBytes: number) {
    this.#request = request
    this.#limit = limit > 0 ? limit : Number.POSITIVE_INFINITY
    this.#bufferBytes = bufferBytes
    if (isTooLarge(request, this.#limit)) this.#error = tooLarge(limit)
    this.#hasEnded = !hasBody(request)
    // The HTTP server reports a malformed or late body only to a listener.
    request.on('error', (error: Error & { statusCode?: number }) =>
      this.#fail(error.statusCode === undefined ? new BadRequestError(error.message) : error),
    )
  }

  /** Bytes that have arrived. */
  get received(): number {
    return this.#received
  }

  /** The reason that the body cannot be read: it is too large, malformed or incomplete. */
  get error(): Error | undefined {
    return this.#error
  }

  /** Whether the client may still send a part of the body. */
  get isIncomplete(): boolean {
    return this.#request.complete === false
  }

  /** The next bytes if there are any, no bytes at the end, or undefined: then wait for {@link BodyReader.subscribe}. */
  take(max: number): Uint8Array | undefined {
    this.#begin()
    const taken = this.#pieces.take(max)
    if (!taken) return this.#hasEnded ? NO_BYTES : undefined
    if (this.#pieces.bytes <= this.#bufferBytes / 2) this.#request.resume()
    return taken
  }

  /** Keeps the memory of a piece that was sent. */
  reuse(piece: Uint8Array): void {
    this.#pieces.reuse(piece)
  }

  /** Sets the only listener for news: bytes, the end, or an error. */
  subscribe(notify: () => void): void {
    this.#notify = notify
  }

  /** Discards the rest, which the client may still send. */
  close(): void {
    this.#pieces.clear()
    this.#hasEnded = true
    this.#notify = () => undefined
    this.#request.resume()
  }

  /** Only when the guest wants the body: a refusal then needs no body. */
  #begin(): void {
    if (this.#isReading || this.#hasEnded) return
    this.#isReading = true
    this.#request.on('data', (piece: Buffer) => this.#add(piece)).on('end', () => this.#end())
  }

  #add(piece: Buffer): void {
    if (this.#hasEnded || this.#error) return
    this.#received += piece.length
    if (this.#received > this.#limit) {
      this.#fail(tooLarge(this.#limit))
      return
    }
    this.#pieces.add(piece)
    if (this.#pieces.bytes >= this.#bufferBytes) this.#request.pause()
    else if (++this.#pieceCount % TURN_PIECES === 0) restFrom(this.#request, () => this.#readOn())
    this.#notify()
  }

  #readOn(): void {
    if (this.#pieces.bytes < this.#bufferBytes) this.#request.resume()
  }

  /** HTTP/2 reports an incomplete body as a normal end; an injected request may have a wrong length. */
  #end(): void {
    const declared = Number(this.#request.headers['content-length'])
    if (this.#request.aborted) this.#fail(new BadRequestError('its body is incomplete'))
    else if (!Number.isNaN(declared) && declared !== this.#received)
      this.#fail(new BadRequestError('its body is shorter or longer than its Content-Length'))
    else {
      this.#hasEnded = true
      this.#notify()
    }
  }

  #fail(error: Error): void {
    if (this.#hasEnded) return
    this.#error ??= error
    this.#pieces.clear()
    this.#notify()
  }
}

const NO_BYTES = new Uint8Array()
