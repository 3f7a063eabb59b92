import { onTestFinished } from 'vitest'
import type { HostFunctions } from '../../src/guest/host-functions.ts'
import type { Log } from '../../src/observe/log/guest-log.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { type CompiledPlugin, loadPlugin } from '../../src/plugin/plugin.ts'
import type { Instance, Runtime } from '../../src/runtime/runtime.ts'
import { guestBytes } from './guest.ts'
import { keepLog, settingsOf } from './instance.ts'

/** A plug-in of guests of `test/guests`, or of WebAssembly text; the others by the names that they are imported by. */
export async function linkedPlugin(
  main: string,
  others: Readonly<Record<string, string>> = {},
): Promise<CompiledPlugin> {
  const load = async (runtime: Runtime['name']) => {
    const linked = Object.entries(others).map(async ([name, text]) => {
      return { ...(await loadPlugin(guestBytes(text), { runtime })), name }
    })
    return { ...(await loadPlugin(guestBytes(main), { runtime })), linked: await Promise.all(linked) }
  }
  const plugin = await load('kernel')
  forSdk.set(plugin, await load('sdk'))
  return plugin
}

/** The same plug-ins, loaded for the SDK. */
const forSdk = new WeakMap<CompiledPlugin, CompiledPlugin>()

interface LinkOptions {
  readonly functions?: HostFunctions
  readonly route?: Partial<RouteOptions>
  readonly log?: Log
}

/** An instance of such a plug-in; closed when the test ends. */
export async function openLinked(
  runtime: Runtime,
  plugin: CompiledPlugin,
  { functions, route, log = keepLog() }: LinkOptions = {},
): Promise<Instance> {
  const loaded = runtime.name === 'sdk' ? (forSdk.get(plugin) ?? plugin) : plugin
  const instance = await runtime.open(loaded, { ...settingsOf(route, log), functions })
  onTestFinished(() => instance.close())
  return instance
}
