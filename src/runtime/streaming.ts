import type { GuestStream } from '../guest/streams/streams.ts'
import type { Caller } from '../observe/observe.ts'
import type { CopiedBytes } from '../platform/pieces.ts'
import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { Instance, InstanceSettings, Runtime } from './runtime.ts'

/**
 * A runtime for guests with streams: bytes that a guest has written and not sent are sent when its call returns.
 *
 * @param stream - That of the running call; instances of one thread take turns.
 */
export function streamingRuntime({ name, open }: Runtime, stream: GuestStream): Runtime {
  return {
    name,
    open(plugin: CompiledPlugin, settings: InstanceSettings): Instance | Promise<Instance> {
      const opened = open(plugin, settings)
      return opened instanceof Promise
        ? opened.then((instance) => new StreamingInstance(instance, stream))
        : new StreamingInstance(opened, stream)
    },
  }
}

class StreamingInstance implements Instance {
  readonly #instance: Instance
  readonly #stream: GuestStream

  constructor(instance: Instance, stream: GuestStream) {
    this.#instance = instance
    this.#stream = stream
  }

  get memoryBytes(): number {
    return this.#instance.memoryBytes
  }

  get kernelBytes(): number {
    return this.#instance.kernelBytes
  }

  /** After a failure nothing is sent: the answer is broken. */
  call(exportName: string, input: CopiedBytes, caller: Caller): Uint8Array | Promise<Uint8Array> {
    this.#stream.begin()
    const output = this.#instance.call(exportName, input, caller)
    return output instanceof Promise ? output.then((bytes) => this.#ended(bytes)) : this.#ended(output)
  }

  close(): Promise<void> {
    return this.#instance.close()
  }

  /** A client that is gone is noticed by the route. */
  #ended(output: Uint8Array): Uint8Array {
    this.#stream.flush()
    return output
  }
}
