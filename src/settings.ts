import type { Isolation } from './engine/isolation.ts'
import type { Log } from './guest-log.ts'
import type { CheckedRouteOptions } from './options.ts'
import type { Plugin } from './plugin.ts'
import type { HostFunctions } from './runtime/host-functions.ts'
import type { InstanceSettings } from './runtime/runtime.ts'
import type { AllowedPath } from './runtime/wasi.ts'

/** Bytes of variables that Extism allows. */
const VAR_MAX = 1_048_576

/** Of 128 MiB, which a guest may have unless told. */
const RECYCLE_MEMORY = 100_663_296

/** Bytes of a page of WebAssembly memory. */
const PAGE = 65_536

/** What a route's instances may use: its options win over the plug-in's manifest, which wins over the defaults. */
export function instanceSettings(
  options: CheckedRouteOptions,
  plugin: Plugin,
  functions: HostFunctions | undefined,
  log: Log,
): InstanceSettings {
  const { wasi, env, outputLimit, blockLimit, varMax } = options
  const { settings } = plugin
  const allowedPaths = [
    ...(settings?.allowedPaths ?? []),
    ...Object.entries(options.allowedPaths).map(readAllowedPath),
  ]
  return {
    config: { ...settings?.config, ...options.config },
    wasi: wasi ? { env, allowedPaths } : undefined,
    outputLimit,
    blockLimit,
    functions,
    varMax: varMax ?? settings?.memory.maxVarBytes ?? VAR_MAX,
    log,
  }
}

/** How long a route's instances are used. */
export function isolationOf(options: CheckedRouteOptions, plugin: Plugin): Isolation {
  const { isolation, recycle, recycleMemory } = options
  const memoryMax = options.memoryMax ?? plugin.settings?.memory.maxPages
  const threeQuarters = memoryMax === undefined ? RECYCLE_MEMORY : (memoryMax * PAGE * 3) / 4
  return { isolation, recycle, recycleMemory: recycleMemory ?? threeQuarters }
}

/** `ro:` in front of the host's path, as in Extism: the guest may not write. */
function readAllowedPath([path, guest]: [path: string, guest: string]): AllowedPath {
  const readOnly = path.startsWith('ro:')
  return { host: readOnly ? path.slice('ro:'.length) : path, guest, readOnly }
}
