/** The return type of `JSON.parse`. Programs for `@extism/extism` read members of it without a check. */
export type Anything = ReturnType<typeof JSON.parse>

/**
 * Bytes from a plug-in: the output of a call, or a block that a host function reads. The methods of `DataView` that read
 * numbers work; those that write throw.
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
        Object.defineProperty(PluginOutput.prototype, name, { value: throwReadOnly })
    }
  }

  /** Its bytes, if they were returned for writing; undefined otherwise. */
  static writableBytes(output: PluginOutput): Uint8Array | undefined {
    return output.#isShared ? output.bytes() : undefined
  }

  /** @throws SyntaxError if it is not JSON. */
  json(): Anything {
    return JSON.parse(this.text())
  }

  arrayBuffer(): ArrayBuffer {
    return this.buffer
  }

  /** Decodes it as UTF-8; invalid bytes become U+FFFD. */
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

function throwReadOnly(): never {
  throw new Error('Cannot set values on output')
}
