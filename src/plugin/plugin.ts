import { resolve } from 'node:path'
import { PluginInvalidError, PluginLoadFailedError } from '../errors/errors.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import type { ModuleLimits } from '../module/limits.ts'
import type { KernelMemoryKind, MergeResult } from '../module/merge.ts'
import { type LoadContext, loadOnce, prepareOnly } from './compiled-modules.ts'
import type { ModuleJob, ResettableModule } from './load-module.ts'
import type { ModuleFacts } from './module-facts.ts'
import type { ScannedFile } from './scan-file.ts'
import type { ManifestSettings } from './source/manifest.ts'
import { bytesOf, leaveInFile, type ModuleBytes } from './source/module-bytes.ts'
import {
  type PluginSource,
  readSource,
  type Source,
  type SourceModule,
  type SourceOptions,
} from './source/source.ts'
import { nameOfSource, sourceName } from './source/url.ts'

declare global {
  /** Declared here so that users of the types need no DOM in their `lib`; with DOM types, this adds nothing. */
  namespace WebAssembly {
    interface Module {}
  }
}

/** A plug-in that was read and, by default, compiled. */
export interface Plugin {
  /**
   * Its only name, in logs, metrics, traces, errors, the admin API and the store: that of the configuration, else see
   * {@link LoadOptions.name}.
   */
  readonly name: string
  /**
   * The file's name, or the start of the digest: for display, and to find what older versions stored under it. Nothing else
   * depends on it, because many plug-ins have a file of the same name.
   */
  readonly file: string
  /** SHA-256 of the main module's bytes, in hex. */
  readonly digest: string
  /** The main module; undefined if it is not compiled here. */
  readonly module?: WebAssembly.Module | undefined
  /** The variant of the main module whose instances have few exports; undefined if that is the module itself. */
  readonly fewExports?: WebAssembly.Module | undefined
  /** undefined unless it was requested and is possible. */
  readonly resettable?: ResettableModule | undefined
  /** Whether the kernel is merged into the main module; undefined if that was not requested. */
  readonly merge?: MergeResult | undefined
  /** Imports of the main module. */
  readonly imports: ModuleFacts['imports']
  /** Exports of the main module. */
  readonly exports: ModuleFacts['exports']
  /** The modules that it, and they, import from by these names. */
  readonly linked: readonly LinkedModule[]
  /** What the main module exports as a function. */
  readonly functions: ModuleFacts['functions']
  /** Memories of the main module. */
  readonly memories: ModuleFacts['memories']
  /** Custom sections of the main module. */
  readonly customSections: ModuleFacts['customSections']
  /** Whether the main module has a start function. */
  readonly hasStart: boolean
  /** Whether the guests of its main module check whether they are interrupted. */
  readonly isInterruptible: boolean
  /** Whether its main module starts within microseconds. */
  readonly startsBriefly: boolean
  /** Run-time settings of its manifest; undefined if there is none. */
  readonly settings: ManifestSettings | undefined
  /** Warnings. */
  readonly warnings: readonly string[]
  /** The feature that only a separate process may run; undefined if any engine may. A text such as `garbage-collected types`. */
  readonly needsProcess?: string | undefined
  /** All modules, if they are not compiled here. */
  readonly uncompiled?: readonly UncompiledModule[] | undefined
  /**
   * Checks and compiles it, if that was left for later. See {@link compileRead}.
   *
   * @param store - Has the bytes if its file has changed. Default: nothing has.
   * @throws the errors of {@link compilePlugin}; {@link PluginLoadFailedError} if its file has changed.
   */
  readonly compile?: ((place: LoadContext, store?: ModuleStore) => Promise<CompiledPlugin>) | undefined
}

/** A compiled module, from which instances are opened. */
export interface CompiledPlugin extends Plugin {
  readonly module: WebAssembly.Module
  readonly linked: readonly CompiledLink[]
}

/** A validated and capped module, for an engine elsewhere. */
export interface UncompiledModule {
  /** `main`, or the name by which the others import from it. */
  readonly name: string
  /** The name in messages. */
  readonly label: string
  readonly bytes: Uint8Array
  /** Whether to create its resettable variant, if possible. */
  readonly resettable: boolean
  /** Whether to merge the kernel into it, if possible. */
  readonly merges: boolean
  /** Whether to let its guests check whether they are interrupted, if possible. */
  readonly interrupts: boolean
}

export interface LinkedModule
  extends Pick<
    ModuleFacts,
    'imports' | 'exports' | 'memories' | 'customSections' | 'hasStart' | 'isInterruptible' | 'startsBriefly'
  > {
  readonly name: string
  /** SHA-256 of its bytes, in hex. */
  readonly digest?: string | undefined
  readonly module?: WebAssembly.Module | undefined
  readonly resettable?: ResettableModule | undefined
  readonly merge?: MergeResult | undefined
}

interface CompiledLink extends LinkedModule {
  readonly module: WebAssembly.Module
}

export interface LoadOptions extends SourceOptions, LoadContext {
  /** Maximum memory of an instance, in pages of 64 KiB. Default: the manifest's, else 2,048 (128 MiB). */
  readonly memoryMax?: number | undefined
  /**
   * How its instances will be used. For `fresh`, a second variant is compiled, with which instances cost a fraction of the
   * CPU time. Default: `reuse`, which supports both.
   */
  readonly isolation?: 'reuse' | 'fresh' | undefined
  /** Limits on complexity that differ from `MODULE_LIMITS`. */
  readonly moduleLimits?: ModuleLimits | undefined
  /** Whether it may have garbage-collected types, which no memory limit covers. Default: no. */
  readonly allowGc?: boolean | undefined
  /**
   * The runtime that opens it. For `kernel`, the kernel is merged into its modules where the engine has multi-memory: Node.js
   * 22 and later. Extism's SDK cannot open such a module. Default: `kernel`.
   */
  readonly runtime?: 'kernel' | 'sdk' | undefined
  /** `shared` for threads: they exchange large bodies with the main thread without a copy. (`kernel`) Default: `own`. */
  readonly kernelMemory?: KernelMemoryKind | undefined
  /** Whether its guests check whether they are interrupted. (`kernel`) Default: `on`. */
  readonly interrupts?: 'on' | 'off' | undefined
  /**
   * Whether it is compiled here: not if only a separate process may compile it. `later`: it is only read, and
   * {@link Plugin.compile} checks and compiles it; not with `allowGc`. `elsewhere`: the same, also with `allowGc`, for plug-ins
   * that another process serves. Default: true.
   */
  readonly compiles?: boolean | 'later' | 'elsewhere' | undefined
}

/** Name of the main module among a plug-in's modules. */
const MAIN = 'main'

/** Default maximum of a guest's pages: 128 MiB. */
export const MEMORY_MAX = 2_048

/** The maximum of a guest's pages: the option, else the manifest's, else {@link MEMORY_MAX}. */
export function memoryMaxOf(
  { memoryMax }: { readonly memoryMax?: number | undefined },
  settings: ManifestSettings | undefined,
): number {
  return memoryMax ?? settings?.memory.maxPages ?? MEMORY_MAX
}

/**
 * Reads, validates and compiles a plug-in. Equal bytes are compiled once.
 *
 * @param source - Path or URL of a module or of an Extism manifest, the bytes of a module, or a manifest.
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module (the message says which kind of file it is), or
 * it needs more memory than allowed.
 * @throws {@link PluginLoadFailedError} if it takes too long to compile.
 * @throws the errors of {@link readSource}.
 */
export async function loadPlugin(
  source: PluginSource,
  options: Omit<LoadOptions, 'compiles'> = {},
): Promise<CompiledPlugin> {
  return compiledPlugin(await compilePlugin(await readSource(source, options), options))
}

/**
 * {@link loadPlugin} for a plug-in whose bytes were read.
 *
 * @throws {@link PluginInvalidError}
 */
export async function compilePlugin(
  { name, file, modules, settings, warnings }: Source,
  options: LoadOptions = {},
): Promise<Plugin> {
  const { moduleLimits: limits, allowGc } = options
  const isKernel = options.runtime !== 'sdk'
  const kernelMemory = isKernel ? (options.kernelMemory ?? 'own') : undefined
  const interrupts = isKernel && options.interrupts !== 'off'
  const memoryMax = memoryMaxOf(options, settings)
  // State shared by several modules cannot be restored.
  const alone = options.isolation === 'fresh' ? 'yes' : 'program'
  const resettable: ModuleJob['resettable'] = modules.length === 1 ? alone : 'no'
  const jobOf = (source: SourceModule) => {
    const label = source.name === MAIN ? name : `${name} (module "${source.name}")`
    return { name: label, memoryMax, limits, allowGc, resettable, kernelMemory, interrupts }
  }
  if (options.compiles === false || allowGc) {
    const prepared = await Promise.all(modules.map((source) => prepare(source, jobOf(source), options)))
    const uncompiled = prepared.map((module) => module.uncompiled)
    if (options.compiles === false || prepared.some((module) => module.needsProcess))
      return register(name, prepared, { file, settings, warnings, uncompiled })
  }
  if (options.compiles === 'elsewhere' || (options.compiles === 'later' && !allowGc)) {
    const { readFacts } = await import('./load-module.ts')
    const parts = modules.map((source) => {
      const facts = readFacts(source.bytes, jobOf(source))
      return { name: source.name, digest: source.digest, ...facts, needsProcess: undefined }
    })
    const left = modules.map((module) => ({
      name: module.name,
      digest: module.digest,
      from: leaveInFile(module),
    }))
    const compile = compileLater({ name, file, modules: left, settings, warnings }, options)
    return register(name, parts, { file, settings, warnings, compile })
  }
  const compiled = await Promise.all(
    modules.map(async (source) => {
      const { facts, ...rest } = await loadOnce(source, jobOf(source), options)
      return { name: source.name, digest: source.digest, ...facts, ...rest }
    }),
  )
  return register(name, compiled, { file, settings, warnings })
}

/**
 * A plug-in whose file was read elsewhere, without its code. It is compiled later.
 *
 * @param path - Of the file.
 */
export function scannedPlugin(path: string, { digest, facts }: ScannedFile, options: LoadOptions): Plugin {
  const { name = nameOfSource(path) } = options
  const source = { name, file: sourceName(path), settings: undefined, warnings: [] }
  const from = { path: resolve(path), digest }
  const compile = compileLater({ ...source, modules: [{ name: MAIN, digest, from }] }, options)
  const part = { name: MAIN, digest, ...facts, needsProcess: undefined }
  return register(name, [part], { file: source.file, settings: undefined, warnings: [], compile })
}

/** The modules of a plug-in that is compiled later. */
interface SourceLeft extends Omit<Source, 'modules'> {
  readonly modules: readonly (Pick<SourceModule, 'name' | 'digest'> & { readonly from: ModuleBytes })[]
}

function compileLater({ modules, ...rest }: SourceLeft, options: LoadOptions): Plugin['compile'] {
  const read = async (
    { name, digest, from }: SourceLeft['modules'][number],
    store: ModuleStore | undefined,
  ): Promise<SourceModule> => {
    try {
      return { name, digest, bytes: await bytesOf(from) }
    } catch (error) {
      const bytes = await store?.(digest).catch(() => undefined)
      if (bytes) return { name, digest, bytes }
      // Clients get this message: it has no path.
      const reason = 'its file has changed since the start, or cannot be read: reload the configuration'
      throw new PluginLoadFailedError(rest.name, reason, { cause: error })
    }
  }
  return async (place, store) => {
    const source = { ...rest, modules: await Promise.all(modules.map((module) => read(module, store))) }
    return compiledPlugin(await compilePlugin(source, { ...options, ...place, compiles: true }))
  }
}

/** Reads a stored module, by its digest. @throws if it is not stored. */
type ModuleStore = (digest: string) => Promise<Uint8Array>

/** Where the modules of plug-ins may be stored, too. */
const stores = new WeakMap<Plugin, ModuleStore>()

/** Notes where the modules of a plug-in may be stored, too. They are read from there if its file has changed or is gone. */
export function noteStore(plugin: Plugin, store: ModuleStore): void {
  if (plugin.compile) stores.set(plugin, store)
}

/** Compiles a plug-in as it was read last. @returns undefined if it is compiled already. */
export function compileRead(plugin: Plugin, place: LoadContext): Promise<CompiledPlugin> | undefined {
  const last = lastRead(plugin)
  return last.compile?.(place, stores.get(last))
}

/** Plug-ins that were read again, with what was read last. */
const readLast = new WeakMap<Plugin, Plugin>()

/**
 * Notes that a plug-in was read again, with the same bytes and manifest, and that its routes stay. When it is compiled later, then from
 * the file and with the limits of the newer one.
 */
export function noteReadAgain(kept: Plugin, newer: Plugin): void {
  if (kept.compile && newer.compile && lastRead(newer) !== lastRead(kept)) readLast.set(kept, newer)
}

/** A plug-in as it was read last. */
function lastRead(plugin: Plugin): Plugin {
  const newer = readLast.get(plugin)
  return newer ? lastRead(newer) : plugin
}

type ModulePart = LinkedModule & ModuleFacts & Pick<Plugin, 'digest' | 'needsProcess'>

function register(
  plugin: string,
  modules: readonly ModulePart[],
  rest: Pick<Plugin, 'file' | 'settings' | 'warnings' | 'uncompiled' | 'compile'>,
): Plugin {
  const main = modules.find((module) => module.name === MAIN)
  if (!main) throw new PluginInvalidError(plugin, 'it has no main module')
  const linked = modules.filter((module) => module !== main)
  const needsProcess = modules.find((module) => module.needsProcess)?.needsProcess
  const made = { linked, ...main, name: plugin, needsProcess, ...rest }
  loaded.add(made)
  return made
}

async function prepare(
  source: SourceModule,
  job: Omit<ModuleJob, 'needsModule'>,
  place: LoadContext,
): Promise<ModulePart & { readonly uncompiled: UncompiledModule }> {
  const { name, digest } = source
  const { facts, bytes, needsProcess } = await prepareOnly(source, job, place)
  const { kernelMemory, interrupts = false } = job
  const resettable = job.resettable === 'yes' || (job.resettable === 'program' && isOnlyProgram(facts))
  return {
    name,
    digest,
    ...facts,
    needsProcess,
    uncompiled: { name, label: job.name, bytes, resettable, merges: kernelMemory !== undefined, interrupts },
  }
}

/**
 * A plug-in that was compiled.
 *
 * @throws Error if it was not compiled here.
 */
export function compiledPlugin(plugin: Plugin): CompiledPlugin {
  if (isCompiled(plugin)) return plugin
  throw new Error(`plug-in ${plugin.name} was not compiled`)
}

function isCompiled(plugin: Plugin): plugin is CompiledPlugin {
  return [plugin, ...plugin.linked].every(({ module }) => module !== undefined)
}

/** Whether a value was returned by {@link loadPlugin}. */
export function isPlugin(value: object): value is Plugin {
  return loaded.has(value)
}

const loaded = new WeakSet<object>()
