/** What `JSON.parse` returns: anything. Programs for `@extism/extism` read members of it without a check. */
export type Anything = ReturnType<typeof JSON.parse>

/**
 * Bytes from a plug-in: what a call answered, or a block that a host function reads. Has what `DataView` has to read
 * numbers; what writes them throws.
 *
 * Its buffer has these bytes only, and is a copy. What a host function writes into `bytes()`, `arrayBuffer()` or
 * `buffer` is in the guest's block when the function has ended.
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
        Object.defineProperty(PluginOutput.prototype, name, { value: refuseToWrite })
    }
  }

  /** Its bytes, if somebody has got them to write into. */
  static writableBytes(output: PluginOutput): Uint8Array | undefined {
    return output.#isShared ? output.bytes() : undefined
  }

  /** @throws SyntaxError if it is no JSON. */
  json(): Anything {
    return JSON.parse(this.text())
  }

  arrayBuffer(): ArrayBuffer {
    return this.buffer
  }

  /** Decodes it as UTF-8; what is none becomes U+FFFD. */
  text(): string {
    return utf8.decode(this)
  }

  /** The same as `text`. */
  string(): string {
    return this.text()
  }

  /** Always the same array. */
  bytes(): Uint8Array<ArrayBuffer> {
    this.#bytes ??= new Uint8Array(this.buffer)
    return this.#bytes
  }
}

const utf8 = new TextDecoder()

function refuseToWrite(): never {
  throw new Error('Cannot set values on output')
}
