/** Memory of a frame, and of a piece in which a part of one arrives, besides its bytes. */
const FRAME_BYTES = 128
const PIECE_BYTES = 256

/** The longest head of a frame. (RFC 6455, section 5.2) */
const HEAD_BYTES = 14

/**
 * Follows the frames that a client sends: the package `ws` tells of messages only when they are complete. It keeps no
 * payload and finds no violations of the protocol.
 */
export class FrameReader {
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headBytes = 0
  #isInPayload = false
  #payloadLeft = 0
  /** Bytes of the incomplete message. */
  #bytes = 0
  #messages = 0

  /** The number of complete messages. */
  get messages(): number {
    return this.#messages
  }

  /** Memory of the message that is incomplete; 0: there is none. */
  get partialBytes(): number {
    return this.#bytes + (this.#isInPayload || this.#isControl ? 0 : this.#headBytes)
  }

  read(piece: Uint8Array): void {
    if (this.#isInPayload && !this.#isControl) this.#bytes += PIECE_BYTES
    for (let at = 0; at < piece.length; ) {
      if (this.#isInPayload) at += this.#readPayload(piece.length - at)
      else this.#readHead(piece[at++] ?? 0)
    }
  }

  get #isControl(): boolean {
    return ((this.#head[0] ?? 0) & 8) !== 0
  }

  #readHead(byte: number): void {
    this.#head[this.#headBytes++] = byte
    if (this.#headBytes < 2) return
    const second = this.#head[1] ?? 0
    const short = second & 127
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0
    if (this.#headBytes < 2 + lengthBytes + (second >> 7) * 4) return
    this.#payloadLeft =
      lengthBytes === 2
        ? this.#head.readUInt16BE(2)
        : lengthBytes === 8
          ? Number(this.#head.readBigUInt64BE(2))
          : short
    this.#isInPayload = true
    if (!this.#isControl) this.#bytes += FRAME_BYTES
    if (this.#payloadLeft === 0) this.#endFrame()
  }

  /** @returns the number of bytes that belong to the payload. */
  #readPayload(available: number): number {
    const bytes = Math.min(this.#payloadLeft, available)
    this.#payloadLeft -= bytes
    if (!this.#isControl) this.#bytes += bytes
    if (this.#payloadLeft === 0) this.#endFrame()
    return bytes
  }

  #endFrame(): void {
    const first = this.#head[0] ?? 0
    this.#isInPayload = false
    this.#headBytes = 0
    if (this.#isControl || (first & 128) === 0) return
    this.#messages++
    this.#bytes = 0
  }
}
