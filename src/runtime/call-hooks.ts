import type { CallHooks } from '../guest/services/service.ts'
import type { Caller } from '../observe/observe.ts'
import type { ByteSource } from '../platform/chunks.ts'
import { thenMaybe } from '../platform/maybe-promise.ts'
import type { Instance, Pause, Runtime } from './runtime.ts'

/** A runtime whose instances run hooks at the begin and the end of each call. Without hooks it is the same runtime. */
export function withCallHooks(runtime: Runtime, all: readonly CallHooks[]): Runtime {
  return all.reduce(
    ({ name, open }, hooks) => ({
      name,
      open: (plugin, settings) =>
        thenMaybe(open(plugin, settings), (instance) => new HookedInstance(instance, hooks)),
    }),
    runtime,
  )
}

class HookedInstance implements Instance {
  readonly #instance: Instance
  readonly #hooks: CallHooks

  constructor(instance: Instance, hooks: CallHooks) {
    this.#instance = instance
    this.#hooks = hooks
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

  get checks(): number | undefined {
    return this.#instance.checks
  }

  /** Calls the guest. After a failure the call does not end: its answer is broken. */
  call(
    exportName: string,
    input: ByteSource,
    caller: Caller,
    pause?: Pause,
  ): Uint8Array | Promise<Uint8Array> {
    this.#hooks.begin(caller)
    return thenMaybe(this.#instance.call(exportName, input, caller, pause), (output) =>
      thenMaybe(this.#hooks.end(caller), () => output),
    )
  }

  close(): Promise<void> {
    return this.#instance.close()
  }
}
