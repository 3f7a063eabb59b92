import type { CompiledPlugin } from '../plugin/plugin.ts'
import type { Caller, Instance, InstanceSettings, Runtime } from '../runtime/runtime.ts'
import type { StallWatch } from './watchdog.ts'

/** A runtime whose guests are watched while they hold the event loop: when they start, and when they are called. */
export function watchRuntime(runtime: Runtime, watch: StallWatch): Runtime {
  const watchInstance = (instance: Instance) => new WatchedInstance(instance, watch)
  const onResume = () => watch.watchTurn()
  let last: { readonly settings: InstanceSettings; readonly watched: InstanceSettings } | undefined
  /** Made once: to copy them for each instance of a `fresh` route takes 2 us. */
  const watchSettings = (settings: InstanceSettings) => {
    if (last?.settings !== settings) last = { settings, watched: { ...settings, onResume } }
    return last.watched
  }
  return {
    name: runtime.name,
    open(plugin: CompiledPlugin, settings: InstanceSettings) {
      watch.beginStart()
      try {
        const opened = runtime.open(plugin, watchSettings(settings))
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
