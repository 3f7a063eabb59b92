import { PluginInvalidError } from '../errors/errors.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import type { ModuleLimits } from '../module/limits.ts'
import { type LoadPlace, loadOnce, prepareOnly } from './compiled-modules.ts'
import type { ModuleFacts, ModuleJob, RenewableModule } from './load-module.ts'
import type { ManifestSettings } from './source/manifest.ts'
import {
  type PluginSource,
  readSource,
  type Source,
  type SourceModule,
  type SourceOptions,
} from './source/source.ts'

declare global {
  /** So that who uses the types needs no DOM in his `lib`; where there is one, this adds nothing to it. */
  namespace WebAssembly {
    interface Module {}
  }
}

/** A plug-in that was read, and compiled unless told otherwise. */
export interface Plugin {
  /** For people: the file's name, or the start of the digest. */
  readonly name: string
  /** SHA-256 of the main module's bytes, in hex. */
  readonly digest: string
  /** The main module; undefined if it was not to be compiled here. */
  readonly module?: WebAssembly.Module | undefined
  /** The form of the main module whose instances have few exports; undefined if that is the module itself. */
  readonly onDemand?: WebAssembly.Module | undefined
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
  /** Of the main module. */
  readonly memories: ModuleFacts['memories']
  /** Of the main module. */
  readonly customSections: ModuleFacts['customSections']
  /** What its manifest says of how it runs; undefined if there is none. */
  readonly settings: ManifestSettings | undefined
  /** For people: what went another way than asked for. */
  readonly warnings: readonly string[]
  /** What only a process of its own may run; undefined if any engine may. In words, such as `garbage-collected types`. */
  readonly needsProcess?: string | undefined
  /** All modules, if they were not to be compiled here. */
  readonly uncompiled?: readonly UncompiledModule[] | undefined
}

/** One that was compiled; instances are opened from it. */
export interface CompiledPlugin extends Plugin {
  readonly module: WebAssembly.Module
  readonly linked: readonly CompiledLink[]
}

/** A module that was checked and capped, for an engine elsewhere. */
export interface UncompiledModule {
  /** `main`, or the name by which the others import from it. */
  readonly name: string
  /** For messages. */
  readonly label: string
  readonly bytes: Uint8Array
  /** Whether the form of it that can be put back is to be made, if it can be. */
  readonly renewable: boolean
}

export interface LinkedModule
  extends Pick<ModuleFacts, 'imports' | 'exports' | 'memories' | 'customSections'> {
  readonly name: string
  /** SHA-256 of its bytes, in hex. */
  readonly digest?: string | undefined
  readonly module?: WebAssembly.Module | undefined
  readonly renewable?: RenewableModule | undefined
}

export interface CompiledLink extends LinkedModule {
  readonly module: WebAssembly.Module
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
  /** Whether it is compiled here: not where no engine but that of a process of its own may see it. Default: true. */
  readonly compiles?: boolean | undefined
}

/** Pages that a guest may have unless told: 128 MiB. */
export const MEMORY_MAX = 2_048

/** Most pages of a guest's memory: what is asked for, else what its manifest says, else {@link MEMORY_MAX}. */
export function memoryMaxOf(
  { memoryMax }: { readonly memoryMax?: number | undefined },
  settings: ManifestSettings | undefined,
): number {
  return memoryMax ?? settings?.memory.maxPages ?? MEMORY_MAX
}

/**
 * Reads, checks and compiles a plug-in. Equal bytes are compiled once.
 *
 * @param source - Path or URL of a module or of an Extism manifest, the bytes of a module, or a manifest.
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module, or it needs more memory than it
 * may have; the message says what they are.
 * @throws {@link PluginLoadFailedError} if it takes too long to compile.
 * @throws what {@link readSource} throws, if they cannot be had.
 */
export async function loadPlugin(
  source: PluginSource,
  options: Omit<LoadOptions, 'compiles'> = {},
): Promise<CompiledPlugin> {
  return compiledPlugin(await compilePlugin(await readSource(source, options), options))
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
  const { moduleLimits: limits, allowGc } = options
  const memoryMax = memoryMaxOf(options, settings)
  // What several modules share cannot be put back.
  const alone = options.isolation === 'fresh' ? 'yes' : 'program'
  const renewable: ModuleJob['renewable'] = modules.length === 1 ? alone : 'no'
  const jobOf = (source: SourceModule) => {
    const label = source.name === 'main' ? name : `${name} (module "${source.name}")`
    return { name: label, memoryMax, limits, allowGc, renewable }
  }
  if (options.compiles === false || allowGc) {
    const prepared = await Promise.all(modules.map((source) => prepare(source, jobOf(source), options)))
    const uncompiled = prepared.map((module) => module.uncompiled)
    if (options.compiles === false || prepared.some((module) => module.needsProcess))
      return register(name, prepared, { settings, warnings, uncompiled })
  }
  const compiled = await Promise.all(
    modules.map(async (source) => {
      const { facts, ...rest } = await loadOnce(source, jobOf(source), options)
      return { name: source.name, digest: source.digest, ...facts, ...rest }
    }),
  )
  return register(name, compiled, { settings, warnings })
}

type ModulePart = LinkedModule & ModuleFacts & Pick<Plugin, 'digest' | 'needsProcess'>

function register(
  plugin: string,
  modules: readonly ModulePart[],
  rest: Pick<Plugin, 'settings' | 'warnings' | 'uncompiled'>,
): Plugin {
  const main = modules.find((module) => module.name === 'main')
  if (!main) throw new PluginInvalidError(plugin, 'it has no main module')
  const linked = modules.filter((module) => module !== main)
  const needsProcess = modules.find((module) => module.needsProcess)?.needsProcess
  const made = { ...main, name: plugin, linked, needsProcess, ...rest }
  loaded.add(made)
  return made
}

async function prepare(
  source: SourceModule,
  job: Omit<ModuleJob, 'needsModule'>,
  place: LoadPlace,
): Promise<ModulePart & { readonly uncompiled: UncompiledModule }> {
  const { name, digest } = source
  const { facts, bytes, needsProcess } = await prepareOnly(source, job, place)
  const renewable = job.renewable === 'yes' || (job.renewable === 'program' && isOnlyProgram(facts))
  return { name, digest, ...facts, needsProcess, uncompiled: { name, label: job.name, bytes, renewable } }
}

/**
 * A plug-in that was compiled.
 *
 * @throws Error if it was not to be: whoever asked for that has no use for it here.
 */
export function compiledPlugin(plugin: Plugin): CompiledPlugin {
  if (isCompiled(plugin)) return plugin
  throw new Error(`plug-in ${plugin.name} was not compiled`)
}

function isCompiled(plugin: Plugin): plugin is CompiledPlugin {
  return [plugin, ...plugin.linked].every(({ module }) => module !== undefined)
}

/** Whether a value is what {@link loadPlugin} returned. */
export function isPlugin(value: object): value is Plugin {
  return loaded.has(value)
}

const loaded = new WeakSet<object>()
