/*
 * The built modules before bundling, for benches that make calls in their own process. The source is not used, because
 * TypeScript runners wrap each function.
 */

type InstanceSettings = import('../src/runtime/runtime.ts').InstanceSettings
type Caller = import('../src/observe/observe.ts').Caller

/** Imports a module of `lib`, by its path there. */
export const load = (path: string) => import(new URL(`../lib/${path}`, import.meta.url).href)

export const { loadPlugin } = (await load('plugin/plugin.js')) as typeof import('../src/plugin/plugin.ts')
export const { kernel } = (await load('runtime/kernel.js')) as typeof import('../src/runtime/kernel.ts')

const ignore = () => undefined

/** A caller that ignores all events. */
export const CALLER: Caller = {
  log: { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore },
}

/** The default settings of a route. */
export const SETTINGS: InstanceSettings = {
  config: {},
  wasi: { env: {}, allowedPaths: [] },
  outputLimit: 8_388_608,
  blockLimit: 67_108_864,
  varMax: 1_048_576,
  log: CALLER.log,
}
