import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream'
import { OutboundTooLargeError } from '../../errors/errors.ts'
import { ChunkQueue } from '../streams/chunk-queue.ts'
import { ResponseTurns } from './response-turns.ts'

/** Listens to a response. */
interface ResponseListener {
  /** Bytes have arrived. */
  news(): void
  /** All bytes have arrived. */
  complete(): void
  /** @param error - `OutboundTooLargeError`, or an error of Node.js. */
  failed(error: Error): void
}

/** Reads the body of a response piece by piece. It keeps a bounded number of bytes: beyond, the server has to wait. */
export class ResponseReader {
  readonly #response: IncomingMessage
  readonly #bufferBytes: number
  readonly #pieces = new ChunkQueue()
  #received = 0
  #isComplete = false

  /**
   * @param name - The target, for messages.
   * @param maxBytes - Maximum size of the body.
   * @param bufferBytes - Bytes that are kept.
   */
  constructor(
    response: IncomingMessage,
    name: string,
    maxBytes: number,
    bufferBytes: number,
    listener: ResponseListener,
  ) {
    this.#response = response
    this.#bufferBytes = bufferBytes
    const turns = new ResponseTurns(response, () => {
      if (this.#pieces.bytes < bufferBytes) response.resume()
    })
    response.on('data', (piece: Buffer) => {
      this.#received += piece.length
      if (this.#received > maxBytes) {
        response.removeAllListeners('data').destroy()
        listener.failed(new OutboundTooLargeError(name, maxBytes))
        return
      }
      this.#pieces.add(piece)
      if (this.#pieces.bytes >= bufferBytes) response.pause()
      turns.count()
      listener.news()
    })
    // It may have broken off already.
    finished(response, { writable: false }, (error) => {
      if (error) return listener.failed(asReset(error))
      this.#isComplete = true
      listener.complete()
    })
  }

  /** Whether all bytes have arrived. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  /** Number of bytes that have arrived and were not taken. */
  get bytes(): number {
    return this.#pieces.bytes
  }

  /** The next bytes. @param max - Maximum bytes. @returns undefined if none have arrived. */
  take(max: number): Uint8Array | undefined {
    const piece = this.#pieces.take(max)
    if (this.#pieces.bytes <= this.#bufferBytes / 2) this.#response.resume()
    return piece
  }

  /** Keeps the memory of a piece that was sent. */
  reuse(piece: Uint8Array): void {
    this.#pieces.reuse(piece)
  }

  /** Drops all bytes, and closes the connection unless the response is complete. */
  close(): void {
    this.#pieces.clear()
    if (!this.#isComplete) this.#response.destroy()
  }
}

/** Node.js reports with several codes that a response breaks off. */
function asReset(error: NodeJS.ErrnoException): Error {
  return error.code?.startsWith('ERR_')
    ? Object.assign(new Error(error.message), { code: 'ECONNRESET' })
    : error
}
