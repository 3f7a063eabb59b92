/**
 * Bytes that a host function reads, with what `DataView` has to read numbers, and nothing of it to write them.
 *
 * A copy: it stays as it is whatever the guest does later. What is written into `bytes()` or `arrayBuffer()` is in the
 * guest's block when the host function returns.
 */
export interface Block extends Omit<DataView<ArrayBuffer>, `set${string}` | typeof Symbol.toStringTag> {
  /** Decodes it as UTF-8; what is none becomes U+FFFD. */
  text(): string
  /** The same as `text`. */
  string(): string
  /** @throws SyntaxError if it is no JSON. */
  json(): unknown
  /** Always the same array. */
  bytes(): Uint8Array<ArrayBuffer>
  arrayBuffer(): ArrayBuffer
}

/** @param bytes - Fill their buffer, and are nobody else's. */
export class BlockCopy extends DataView<ArrayBuffer> implements Block {
  readonly #bytes: Uint8Array<ArrayBuffer>
  #isShared = false

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    super(bytes.buffer)
    this.#bytes = bytes
  }

  /** Its bytes, if somebody has got them to write into. */
  get writable(): Uint8Array | undefined {
    return this.#isShared ? this.#bytes : undefined
  }

  text(): string {
    return utf8.decode(this.#bytes)
  }

  string(): string {
    return this.text()
  }

  json(): unknown {
    return JSON.parse(this.text())
  }

  bytes(): Uint8Array<ArrayBuffer> {
    this.#isShared = true
    return this.#bytes
  }

  arrayBuffer(): ArrayBuffer {
    return this.bytes().buffer
  }
}

const utf8 = new TextDecoder()

for (const name of Object.getOwnPropertyNames(DataView.prototype)) {
  if (name.startsWith('set')) Object.defineProperty(BlockCopy.prototype, name, { value: refuseToWrite })
}

function refuseToWrite(): never {
  throw new TypeError('what a host function reads cannot be written to: store makes a new block')
}
