/** The return type of `JSON.parse`. Programs for `@extism/extism` read members of it without a check. */
export type Anything = ReturnType<typeof JSON.parse>

/**
 * Bytes from a plug-in: the output of a call, or a block that a host function reads. The methods of `DataView` that read
 * numbers work; those that write throw.
 *
 * Its buffer has these bytes only. It is a copy, or the buffer of the call's input if the bytes are that whole input. When a
 * host function ends, its writes into `bytes()`, `arrayBuffer()` or `buffer` are copied to the guest's block.
 */
export class PluginOutput extends DataView<ArrayBuffer> {
  #bytes: Uint8Array<ArrayBuffer> | undefined
  #isShared = false

  static {
    const bufferOf = Object.getOwnPropertyDescriptor(DataView.prototype, 'buffer')?.get
    Object.defineProperty(PluginOutput.prototype, 'buffer', {
      configurable: true,
      get(this: PluginOutput) {
        this.#isShared = true
        return bufferOf?.call(this)
      },
    })
    for (const name of Object.getOwnPropertyNames(DataView.prototype)) {
      if (name.startsWith('set'))
        Object.defineProperty(PluginOutput.prototype, name, { value: throwReadOnly })
    }
  }

  /** The bytes, if the caller has got them as a writable buffer; undefined otherwise, or if it detached the buffer. */
  static writableBytes(output: PluginOutput): Uint8Array | undefined {
    return output.#isShared && !PluginOutput.isDetached(output) ? output.bytes() : undefined
  }

  /** Whether the caller has got the buffer and transferred it. Also true of an empty buffer. */
  static isDetached(output: PluginOutput): boolean {
    // Node 20 has no `ArrayBuffer.prototype.detached`.
    return output.#isShared && output.buffer.byteLength === 0
  }

  /** @throws SyntaxError if the text is not JSON. */
  json(): Anything {
    return JSON.parse(this.text())
  }

  arrayBuffer(): ArrayBuffer {
    return this.buffer
  }

  /** Decodes the bytes as UTF-8; invalid bytes become U+FFFD. */
  text(): string {
    return utf8.decode(this)
  }

  /** Same as `text`. */
  string(): string {
    return this.text()
  }

  /** Returns the same array each time. */
  bytes(): Uint8Array<ArrayBuffer> {
    this.#bytes ??= new Uint8Array(this.buffer)
    return this.#bytes
  }
}

const utf8 = new TextDecoder()

function throwReadOnly(): never {
  throw new Error('Cannot set values on output')
}
