import { statSync } from 'node:fs'
import type { Isolation } from '../engine/isolation.ts'
import { AllowedPathError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import type { OutboundOptions } from '../guest/outbound/outbound.ts'
import type { Log } from '../observe/log/guest-log.ts'
import type { CheckedRouteOptions } from '../options/options.ts'
import { MEMORY_MAX, type Plugin } from '../plugin/plugin.ts'
import { START } from '../plugin/start.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'
import type { AllowedPath } from '../runtime/wasi/wasi.ts'

/** Bytes of variables that Extism allows. */
const VAR_MAX = 1_048_576

/** Bytes of a response that Extism allows. */
const HTTP_RESPONSE_MAX = 52_428_800

/** Bytes of blocks that guest and host exchange in a call. */
const BLOCK_LIMIT = 67_108_864

/** Bytes of a page of WebAssembly memory. */
const PAGE = 65_536

/** What a route's instances may use: its options win over the plug-in's manifest, which wins over the defaults. */
export function instanceSettings(
  options: CheckedRouteOptions,
  plugin: Plugin,
  exportName: string,
  functions: HostFunctions | undefined,
  log: Log,
): InstanceSettings {
  const { wasi, env, outputLimit, httpErrors, logRate } = options
  const { settings } = plugin
  const allowedPaths = [
    ...(settings?.allowedPaths ?? []),
    ...Object.entries(options.allowedPaths).map(readAllowedPath),
  ]
  return {
    config: { ...settings?.config, ...options.config },
    wasi: wasi ? { env, allowedPaths: allowedPaths.map(checkFolder) } : undefined,
    outputLimit,
    blockLimit: blockLimitOf(options, plugin),
    blockPages: options.blockLimit === undefined ? settings?.memory.maxPages : undefined,
    functions,
    varMax: varMaxOf(options, plugin),
    command: exportName === START,
    httpErrors,
    log,
    logRate,
  }
}

/**
 * Most bytes of blocks of a call. As in Extism's JavaScript SDK a manifest's `max_pages` is a limit for them too, beside
 * that of the guest's own memory: an instance may have both.
 */
export function blockLimitOf(
  { blockLimit }: Pick<CheckedRouteOptions, 'blockLimit'>,
  plugin: Pick<Plugin, 'settings'> | undefined,
): number {
  const maxPages = plugin?.settings?.memory.maxPages ?? Number.POSITIVE_INFINITY
  return blockLimit ?? Math.min(BLOCK_LIMIT, maxPages * PAGE)
}

/** Most bytes of variables. */
export function varMaxOf({ varMax }: CheckedRouteOptions, { settings }: Plugin): number {
  return varMax ?? settings?.memory.maxVarBytes ?? VAR_MAX
}

/**
 * How long a route's instances are used. Unless told, one is replaced when it has three quarters of the memory that
 * the guest may have; a quarter of it is growth, so that a guest which begins with nearly all is not replaced each time.
 */
export function isolationOf(
  options: Pick<CheckedRouteOptions, 'isolation' | 'recycle' | 'recycleMemory' | 'memoryMax'>,
  plugin: Pick<Plugin, 'settings'>,
): Isolation {
  const { isolation, recycle, recycleMemory } = options
  const memoryMax = (options.memoryMax ?? plugin.settings?.memory.maxPages ?? MEMORY_MAX) * PAGE
  return recycleMemory === undefined
    ? { isolation, recycle, recycleMemory: (memoryMax * 3) / 4, recycleGrowth: memoryMax / 4 }
    : { isolation, recycle, recycleMemory, recycleGrowth: 0 }
}

/**
 * Where a route's guests may send HTTP requests. The option replaces the manifest's list, so that an operator can take
 * away what a plug-in asks for: `[]` allows nothing. A manifest of the network opens public addresses only: its names
 * could lead into this machine's network.
 *
 * @returns undefined if they may send none.
 */
export function outboundOptions(
  options: Pick<CheckedRouteOptions, 'allowedHosts' | 'httpResponseMax'>,
  { settings }: Pick<Plugin, 'settings'>,
): OutboundOptions | undefined {
  const allowedHosts = options.allowedHosts ?? settings?.allowedHosts ?? []
  if (allowedHosts.length === 0) return undefined
  return {
    allowedHosts,
    opensPrivate: options.allowedHosts !== undefined || !settings?.isRemote,
    responseMax: options.httpResponseMax ?? settings?.memory.maxHttpResponseBytes ?? HTTP_RESPONSE_MAX,
  }
}

/** @throws {@link AllowedPathError} */
function checkFolder(path: AllowedPath): AllowedPath {
  const found = statSync(path.host, { throwIfNoEntry: false })
  if (found?.isDirectory()) return path
  throw new AllowedPathError(path.host, found ? 'it is not a folder' : 'there is no such folder')
}

/** `ro:` in front of the host's path, as in Extism: the guest may not write. */
function readAllowedPath([path, guest]: [path: string, guest: string]): AllowedPath {
  const readOnly = path.startsWith('ro:')
  return { host: readOnly ? path.slice('ro:'.length) : path, guest, readOnly }
}
