import { resolve } from 'node:path'
import type { Environment } from '../options/config.ts'
import type { ConfigMap } from '../options/config-node.ts'
import type { CheckedLoadOptions, CheckedRouteOptions } from '../options/options.ts'
import { type LoadedBy, loadedFor } from '../options/resolved-route.ts'
import { defaultCacheFolder } from '../platform/cache-folder.ts'
import { EventLoopYielder } from '../platform/event-loop.ts'
import type { LoadContext } from '../plugin/compiled-modules.ts'
import type { PullSettings } from '../plugin/oci/pull.ts'
import {
  compilePlugin,
  type LoadOptions,
  memoryMaxOf,
  noteStore,
  type Plugin,
  scannedPlugin,
} from '../plugin/plugin.ts'
import type { ScannedFile } from '../plugin/scan-file.ts'
import { bytesOf, leaveInFile, type ModuleBytes } from '../plugin/source/module-bytes.ts'
import { readSource, type SourceOptions, verifyStored } from '../plugin/source/source.ts'
import { AUTHORIZATION_VARIABLE, isUrl } from '../plugin/source/url.ts'
import type { Trust } from '../plugin/trust/trust.ts'
import { storedBytes, toVersion, type Version } from './edits.ts'

/** Loads the plug-ins of routes. */
export interface Loader {
  /** Announces all plug-ins, so that many are read together. */
  expect(routes: readonly CheckedRouteOptions[]): Promise<void>
  /**
   * Loads the plug-in of a route. Routes of the same plug-in share it.
   *
   * @param name - Of the plug-in. Default: see `LoadOptions.name`.
   */
  load(route: CheckedRouteOptions, name?: string): Promise<LoadedVersion>
}

export interface LoadedVersion {
  readonly plugin: Plugin
  readonly version: Version
}

/** How a configuration is read: its folder, abort signal and callbacks. */
export interface ReadingOptions extends LoadContext {
  /** Called with each local file or folder before it is read. */
  onFile?(path: string): void
  /** Called with each tag of a registry, and the digest that is used for it. */
  onTag?(reference: string, digest: string): void
  /** Digests that tags have now, by reference. */
  readonly digests?: ReadonlyMap<string, string> | undefined
  /** Whether plug-ins are compiled in this process, by the options of the server. Default: {@link PluginTable.compiles}. */
  readonly compiles?: ((server: ConfigMap) => boolean) | undefined
  /** What to serve instead of a plug-in that cannot be loaded; undefined: nothing, which is a failure. Default: nothing. */
  instead?(name: string, failure: unknown): LoadedVersion | undefined
  /** Receives the loaded plug-ins. */
  readonly plugins: PluginTable
}

/** Loaded plug-ins, by name, version and the route options that affect loading. */
export class PluginTable {
  /** Modules read since the last {@link PluginTable.settled}, by digest. */
  readonly modules = new Map<string, ModuleBytes>()
  /** The number of plug-ins of the configuration, which decides whether many are loaded on their first calls. */
  expected: number
  /** Whether they are compiled in this process: those of serving processes are only read by the primary. */
  compiles: boolean
  readonly #plugins = new Map<string, Plugin>()
  readonly #base: PluginTable | undefined

  /** @param base - Has further plug-ins. */
  constructor(base?: PluginTable) {
    this.#base = base
    this.expected = base?.expected ?? 1
    this.compiles = base?.compiles ?? true
  }

  get(name: string, version: Version, route: LoadedBy): Plugin | undefined {
    return this.#plugins.get(this.#key(name, version, route)) ?? this.#base?.get(name, version, route)
  }

  set(version: Version, route: LoadedBy, plugin: Plugin): void {
    this.#plugins.set(this.#key(plugin.name, version, route), plugin)
  }

  /** The table with all plug-ins, without their modules. */
  settled(): PluginTable {
    this.modules.clear()
    const base = this.#base
    if (!base) return this
    base.expected = this.expected
    for (const [key, plugin] of this.#plugins) base.#plugins.set(key, plugin)
    return base
  }

  /** Removes plug-ins without blocking the event loop. */
  async removeUnless(isKept: (digest: string) => boolean): Promise<void> {
    const pace = new EventLoopYielder()
    for (const key of this.#plugins.keys()) {
      if (!isKept(key.slice(0, key.indexOf(' ')))) this.#plugins.delete(key)
      await pace.step()
    }
  }

  #key(name: string, { digest }: Version, route: LoadedBy): string {
    return `${digest} ${Object.values(loadedFor(route, this.expected)).join(' ')} ${name}`
  }
}

/** Plug-ins are loaded here and not with the routes, because downloads may need credentials. */
export function openLoader(
  options: CheckedLoadOptions,
  sources: SourceOptions,
  { plugins, compiles: _compiles, instead, ...reading }: ReadingOptions,
): Loader {
  const loading = new Map<string, Promise<LoadedVersion>>()
  let scanned: ReadonlyMap<string, Promise<ScannedFile | undefined>> = new Map()
  let scannedFor: CheckedRouteOptions['memoryMax'] // the limit that was applied
  const howOf = (route: CheckedRouteOptions, name?: string) => ({
    name,
    ...loadOptions(route, plugins, options, sources),
    ...reading,
  })
  const mayScan = !options.allowGc && !sources.trust && !sources.pulling?.requireSignatures
  const fileToScan = (route: CheckedRouteOptions) =>
    mayScan && loadedFor(route, plugins.expected).compiles === 'later' ? moduleFile(route) : undefined
  const load = async (route: CheckedRouteOptions, name: string | undefined) => {
    const how = howOf(route, name)
    const path = route.memoryMax === scannedFor ? fileToScan(route) : undefined
    const file = path === undefined ? undefined : await scanned.get(path)
    if (path !== undefined && file) {
      const plugin = scannedPlugin(path, file, how)
      const { digest, settings } = plugin
      const modules = [{ name: 'main', digest, bytes: { length: file.size } }]
      plugins.modules.set(digest, { path: resolve(path), digest })
      return { plugin, version: toVersion({ file: plugin.file, settings, modules }, 'file') }
    }
    const source = await readSource(route.plugin, how)
    const version = toVersion(source, 'file')
    const plugin = plugins.get(source.name, version, route) ?? (await compilePlugin(source, how))
    for (const [digest, bytes] of storedBytes(source.modules)) plugins.modules.set(digest, bytes)
    if (how.compiles === 'later')
      for (const module of source.modules) plugins.modules.set(module.digest, leaveInFile(module))
    return { plugin, version }
  }
  return {
    async expect(routes) {
      plugins.expected = routes.length
      const [first] = routes
      if (!first) return
      const how = howOf(first)
      scannedFor = first.memoryMax
      const files = routes.flatMap((route) => {
        return route.memoryMax === scannedFor ? (fileToScan(route) ?? []) : []
      })
      const paths = [...new Set(files)]
      if (paths.length < LEAST_SCANNED) return
      const { scanInThreads, startThreads } = await import('../plugin/load-threads.ts') // loaded on demand
      startThreads()
      for (const path of paths) how.onFile?.(path)
      scanned = scanInThreads(
        paths,
        { memoryMax: memoryMaxOf(how, undefined), limits: how.moduleLimits },
        how,
      )
    },
    load(route, name) {
      const { plugin, links } = route
      const loadNew = async () => {
        const loaded = await load(route, name).catch((error) => {
          const served = name === undefined ? undefined : instead?.(name, error)
          if (served) return served
          throw error
        })
        plugins.set(loaded.version, route, loaded.plugin)
        return loaded
      }
      if (typeof plugin !== 'string') return loadNew()
      const key = JSON.stringify([name, plugin, links, loadedFor(route, plugins.expected)])
      const loaded = loading.get(key) ?? loadNew()
      loading.set(key, loaded)
      return loaded
    },
  }
}

/** Reading fewer takes less time than starting a thread. */
const LEAST_SCANNED = 256

/** The file of a plug-in that consists of a single module. */
function moduleFile({ plugin, links }: CheckedRouteOptions): string | undefined {
  const isFile = typeof plugin === 'string' && /\.wasm$/i.test(plugin) && !isUrl(plugin)
  return isFile && Object.keys(links).length === 0 ? plugin : undefined
}

/** The loading options of a route's plug-in. @param plugins - Those that are loaded together. */
export function loadOptions(
  route: Pick<CheckedRouteOptions, 'links'> & LoadedBy,
  { expected, compiles }: Pick<PluginTable, 'expected' | 'compiles'>,
  { moduleLimits, allowGc }: Pick<CheckedLoadOptions, 'moduleLimits' | 'allowGc'>,
  sources: SourceOptions,
): LoadOptions {
  const how = loadedFor(route, expected)
  return {
    links: Object.entries(route.links).map(([name, source]) => ({ name, source })),
    ...how,
    compiles: how.compiles === true && !compiles ? 'elsewhere' : how.compiles,
    moduleLimits,
    allowGc,
    ...sources,
  }
}

/**
 * How remote sources are read, and who may sign plug-ins. The keys of signers are read with the first plug-in.
 *
 * @param onTransfer - Receives the progress of pulls.
 */
export function sourceOptions(
  { cacheFolder, downloadLimit, downloadTimeoutMs, ...load }: CheckedLoadOptions,
  environment: Environment,
  onTransfer?: PullSettings['onTransfer'],
): SourceOptions {
  const { registries, pullPolicy, requireSignatures, trust } = load
  let opened: Promise<Trust> | undefined
  const openPolicies = () => {
    opened ??= import('../plugin/trust/trust.ts').then(({ openTrust }) => openTrust(trust)) // loaded on demand
    opened.catch(() => {
      opened = undefined // a file may be readable later
    })
    return opened
  }
  return {
    authorization: environment[AUTHORIZATION_VARIABLE] || undefined,
    cacheFolder: cacheFolder ?? defaultCacheFolder(environment),
    maxBytes: downloadLimit,
    timeoutMs: downloadTimeoutMs,
    pulling: { environment, registries, policy: pullPolicy, requireSignatures, onTransfer },
    ...(Object.keys(trust).length > 0 && { trust: openPolicies }),
  }
}

/** How the plug-ins of stored versions are loaded. */
export interface Loading extends LoadContext {
  /** Loaded plug-ins, extended by loading; bytes of modules that are stored nowhere else. */
  readonly plugins: PluginTable
  readonly load: Pick<CheckedLoadOptions, 'moduleLimits' | 'allowGc'>
  readonly sources: SourceOptions
  /** The bytes of a stored module. */
  module(digest: string): Promise<Uint8Array>
}

/** Loads the plug-in of a stored version, unless it is loaded. Its signatures are verified again. */
export async function loadVersion(
  name: string,
  version: Version,
  route: LoadedBy,
  { plugins, load, sources, module, isServing, signal, log }: Loading,
): Promise<Plugin> {
  const known = plugins.get(name, version, route)
  if (known) {
    noteStore(known, module)
    return known
  }
  const { name: file, settings } = version
  const stored = async (digest: string) => bytesOf(plugins.modules.get(digest) ?? (await module(digest)))
  const read = version.modules.map(async ({ name, digest, place, bundle }) => {
    const signature = bundle === undefined ? undefined : await stored(bundle)
    const origin = place === undefined && !signature ? undefined : { place, bundle: signature }
    const found = { name, digest, bytes: await stored(digest), origin }
    await verifyStored(found, { ...sources, signal })
    return found
  })
  const source = { name, file, modules: await Promise.all(read), settings, warnings: [] }
  const how = {
    ...loadOptions({ ...route, links: {} }, plugins, load, {}),
    isServing,
    signal,
    log,
  }
  const plugin = await compilePlugin(source, how)
  plugins.set(version, route, plugin)
  return plugin
}
