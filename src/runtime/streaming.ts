import { findHostFunction, type HostFunctions } from '../guest/host-functions.ts'
import { after } from '../guest/streams/after.ts'
import type { GuestStreams } from '../guest/streams/guest-stream.ts'
import type { Caller } from '../observe/observe.ts'
import { suspending } from '../platform/missing-types.ts'
import type { CopiedBytes } from '../platform/pieces.ts'
import { hostImports } from '../plugin/host-imports.ts'
import type { CompiledPlugin, Plugin } from '../plugin/plugin.ts'
import type { Instance, InstanceSettings, Runtime } from './runtime.ts'

/** Number of guests that stream in one thread at a time, where they are suspended while they wait. Each has its own memory. */
export const STREAMS_PER_THREAD = 256

/** The reason that the guests of a plug-in with streams cannot be suspended while they wait; undefined if they can. */
export function suspensionProblem({ linked }: Pick<Plugin, 'linked'>): string | undefined {
  if (!suspending) return 'Node.js can suspend a guest that streams only from version 24 on'
  // Between modules there may be JavaScript, which cannot be suspended.
  return linked.length > 0 ? 'a guest that streams cannot be suspended with linked modules' : undefined
}

/**
 * Number of streams that a thread has at a time. A promise of a user's function may never settle: such a guest can be ended
 * only with its thread, so the thread has no others.
 *
 * @param users - The functions of the user.
 */
export function streamsPerThread(
  plugin: Pick<Plugin, 'imports' | 'linked'>,
  users: HostFunctions = {},
): number {
  const awaits = hostImports(plugin).some(
    ({ module, name }) => findHostFunction(users, module, name)?.isAsync,
  )
  return awaits || suspensionProblem(plugin) !== undefined ? 1 : STREAMS_PER_THREAD
}

/**
 * A runtime for guests with streams: bytes that a guest has written and not sent are sent when its call returns.
 *
 * @param streams - Those of the running calls.
 */
export function streamingRuntime({ name, open }: Runtime, streams: GuestStreams): Runtime {
  return {
    name,
    open(plugin: CompiledPlugin, settings: InstanceSettings): Instance | Promise<Instance> {
      return after(open(plugin, settings), (instance) => new StreamingInstance(instance, streams))
    },
  }
}

class StreamingInstance implements Instance {
  readonly #instance: Instance
  readonly #streams: GuestStreams

  constructor(instance: Instance, streams: GuestStreams) {
    this.#instance = instance
    this.#streams = streams
  }

  get memoryBytes(): number {
    return this.#instance.memoryBytes
  }

  get kernelBytes(): number {
    return this.#instance.kernelBytes
  }

  get hasExited(): boolean {
    return this.#instance.hasExited
  }

  /** After a failure nothing is sent: the answer is broken. */
  call(exportName: string, input: CopiedBytes, caller: Caller): Uint8Array | Promise<Uint8Array> {
    this.#streams.begin(caller)
    return after(this.#instance.call(exportName, input, caller), (output) =>
      // A client that is gone is noticed by the route.
      after(this.#streams.end(caller), () => output),
    )
  }

  close(): Promise<void> {
    return this.#instance.close()
  }
}
