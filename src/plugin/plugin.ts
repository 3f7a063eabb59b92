import { PluginInvalidError } from '../errors.ts'
import type { ModuleLimits } from '../module/limits.ts'
import type { ManifestSettings } from '../source/manifest.ts'
import { type PluginSource, readSource, type Source, type SourceOptions } from '../source/source.ts'
import type { RenewableModule } from './compile.ts'
import { type LoadPlace, loadOnce } from './compiled-modules.ts'
import type { ModuleJob } from './load-module.ts'
import type { ModuleFacts } from './prepare.ts'

declare global {
  /** So that who uses the types needs no DOM in his `lib`; where there is one, this adds nothing to it. */
  namespace WebAssembly {
    interface Module {}
  }
}

/** A plug-in that was read and compiled; instances are opened from it. */
export interface Plugin {
  /** For people: the file's name, or the start of the digest. */
  readonly name: string
  /** SHA-256 of the main module's bytes, in hex. */
  readonly digest: string
  /** The main module. */
  readonly module: WebAssembly.Module
  /** None unless it was asked for, and can be had. */
  readonly renewable?: RenewableModule | undefined
  /** Of the main module. */
  readonly imports: ModuleFacts['imports']
  /** Of the main module. */
  readonly exports: ModuleFacts['exports']
  /** The modules that it, and they, import from by these names. */
  readonly linked: readonly LinkedModule[]
  /** What the main module exports as a function. */
  readonly functions: ModuleFacts['functions']
  /** What its manifest says of how it runs; undefined if there is none. */
  readonly settings: ManifestSettings | undefined
  /** Why its instances need a process of their own; undefined if they do not. */
  readonly needsProcess?: string | undefined
  /** For people: what went another way than asked for. */
  readonly warnings: readonly string[]
}

export interface LinkedModule {
  readonly name: string
  readonly module: WebAssembly.Module
  readonly renewable?: RenewableModule | undefined
  readonly imports: ModuleFacts['imports']
  readonly exports: ModuleFacts['exports']
}

export interface LoadOptions extends SourceOptions, LoadPlace {
  /** Most memory of an instance, in pages of 64 KiB. Default: what the manifest says, else 2,048 (128 MiB). */
  readonly memoryMax?: number | undefined
  /**
   * How its instances will be used. For `fresh` it is compiled in a second form, with which they cost a fraction of the
   * CPU. Default: `reuse`, which can be used for both.
   */
  readonly isolation?: 'reuse' | 'fresh' | undefined
  /** What a module may ask of the compiler, where it is not what `MODULE_LIMITS` says. */
  readonly moduleLimits?: ModuleLimits | undefined
  /** Whether it may have garbage-collected types, which no memory limit bounds. Default: no. */
  readonly allowGc?: boolean | undefined
}

/** Pages that a guest may have unless told: 128 MiB. */
export const MEMORY_MAX = 2_048

/**
 * Reads, checks and compiles a plug-in. Equal bytes are compiled once.
 *
 * @param source - Path or URL of a module or of an Extism manifest, the bytes of a module, or a manifest.
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module, or it needs more memory than it
 * may have; the message says what they are.
 * @throws {@link PluginLoadFailedError} if it takes too long to compile.
 * @throws what {@link readSource} throws, if they cannot be had.
 */
export async function loadPlugin(source: PluginSource, options: LoadOptions = {}): Promise<Plugin> {
  return compilePlugin(await readSource(source, options), options)
}

/**
 * {@link loadPlugin} for a plug-in that was read.
 *
 * @throws {@link PluginInvalidError}
 */
export async function compilePlugin(
  { name, modules, settings, warnings }: Source,
  options: LoadOptions = {},
): Promise<Plugin> {
  const { memoryMax = settings?.memory.maxPages ?? MEMORY_MAX, moduleLimits: limits, allowGc } = options
  // What several modules share cannot be put back.
  const alone = options.isolation === 'fresh' ? 'yes' : 'program'
  const renewable: ModuleJob['renewable'] = modules.length === 1 ? alone : 'no'
  const compiled = await Promise.all(
    modules.map(async (source) => {
      const module = source.name === 'main' ? name : `${name} (module "${source.name}")`
      const job = { name: module, memoryMax, limits, allowGc, renewable }
      const { facts, ...rest } = await loadOnce(source, job, options)
      return { name: source.name, digest: source.digest, ...facts, ...rest }
    }),
  )
  const main = compiled.find((module) => module.name === 'main')
  if (!main) throw new PluginInvalidError(name, 'it has no main module')
  const linked = compiled.filter((module) => module !== main)
  const needsProcess = compiled.find((module) => module.needsProcess)?.needsProcess
  const plugin = { ...main, name, linked, needsProcess, settings, warnings }
  loaded.add(plugin)
  return plugin
}

/** Whether a value is what {@link loadPlugin} returned. */
export function isPlugin(value: object): value is Plugin {
  return loaded.has(value)
}

const loaded = new WeakSet<object>()
