import type { Plugin } from '../plugin/plugin.ts'
import type { Caller, Instance, InstanceSettings, Runtime } from '../runtime/runtime.ts'
import type { StallWatch } from './watchdog.ts'

/** A runtime whose guests are watched while they hold the event loop: when they start, and when they are called. */
export function watchRuntime(runtime: Runtime, watch: StallWatch): Runtime {
  const watchInstance = (instance: Instance) => new WatchedInstance(instance, watch)
  return {
    name: runtime.name,
    open(plugin: Plugin, settings: InstanceSettings) {
      watch.beginStart()
      try {
        const opened = runtime.open(plugin, { ...settings, onResume: () => watch.watchTurn() })
        return opened instanceof Promise ? opened.then(watchInstance) : watchInstance(opened)
      } finally {
        watch.end()
      }
    },
  }
}

class WatchedInstance implements Instance {
  readonly #instance: Instance
  readonly #watch: StallWatch

  constructor(instance: Instance, watch: StallWatch) {
    this.#instance = instance
    this.#watch = watch
  }

  get memoryBytes(): number {
    return this.#instance.memoryBytes
  }

  get kernelBytes(): number {
    return this.#instance.kernelBytes
  }

  call(exportName: string, input: Uint8Array, caller: Caller): Uint8Array | Promise<Uint8Array> {
    this.#watch.beginCall()
    try {
      const output = this.#instance.call(exportName, input, caller)
      if (output instanceof Promise) this.#watch.watchTurn()
      return output
    } finally {
      this.#watch.end()
    }
  }

  close(): Promise<void> {
    return this.#instance.close()
  }
}
