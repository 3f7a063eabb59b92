import { PluginInvalidError } from '../errors.ts'
import type { ManifestSettings } from '../source/manifest.ts'
import {
  type PluginSource,
  readSource,
  type Source,
  type SourceModule,
  type SourceOptions,
} from '../source/source.ts'
import { callableExports } from './callable.ts'
import { whyNotAModule } from './file-kind.ts'
import { capMemory, hasTableValue } from './memory-cap.ts'
import {
  type ExportedItem,
  exportedFunctions,
  type FunctionExport,
  type ImportedItem,
  moduleExports,
  moduleImports,
} from './module.ts'
import { makeRenewable, type Renewable } from './renewable.ts'
import { START } from './start.ts'
import { WeakValues } from './weak-values.ts'

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
  readonly imports: readonly ImportedItem[]
  /** Of the main module. */
  readonly exports: readonly ExportedItem[]
  /** The modules that it, and they, import from by these names. */
  readonly linked: readonly LinkedModule[]
  /** What the main module exports as a function. */
  readonly functions: readonly FunctionExport[]
  /** What its manifest says of how it runs; undefined if there is none. */
  readonly settings: ManifestSettings | undefined
  /** For people: what went another way than asked for. */
  readonly warnings: readonly string[]
}

export interface LinkedModule {
  readonly name: string
  readonly module: WebAssembly.Module
  readonly renewable?: RenewableModule | undefined
  readonly imports: readonly ImportedItem[]
  readonly exports: readonly ExportedItem[]
}

/** The same module, but for what it exports: the host can make an instance as new. */
export interface RenewableModule extends Omit<Renewable, 'bytes'> {
  readonly module: WebAssembly.Module
}

export interface LoadOptions extends SourceOptions {
  /** Most memory of an instance, in pages of 64 KiB. Default: what the manifest says, else 2,048 (128 MiB). */
  readonly memoryMax?: number | undefined
  /**
   * How its instances will be used. For `fresh` it is compiled in a second form, with which they cost a fraction of the
   * CPU. Default: `reuse`, which can be used for both.
   */
  readonly isolation?: 'reuse' | 'fresh' | undefined
}

/** Pages that a guest may have unless told: 128 MiB. */
export const MEMORY_MAX = 2_048

/**
 * Reads, checks and compiles a plug-in. Equal bytes are compiled once.
 *
 * @param source - Path or URL of a module or of an Extism manifest, the bytes of a module, or a manifest.
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module, or it needs more memory than it
 * may have; the message says what they are.
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
  const memoryMax = options.memoryMax ?? settings?.memory.maxPages ?? MEMORY_MAX
  // What several modules share cannot be put back.
  const isFresh = (module: SourceModule) =>
    modules.length === 1 && (options.isolation === 'fresh' || isOnlyProgram(module))
  const compiled = await Promise.all(modules.map((module) => compileOnce(module, memoryMax, isFresh, name)))
  const main = compiled.find((module) => module.name === 'main')
  if (!main) throw new PluginInvalidError(name, 'it has no main module')

  const linked = compiled.filter((module) => module !== main)
  const functions = exportedFunctions(main.bytes)
  const { digest, module, renewable, imports, exports } = main
  const plugin = { name, digest, module, renewable, imports, exports, linked, functions, settings, warnings }
  loaded.add(plugin)
  return plugin
}

/** Whether a value is what {@link loadPlugin} returned. */
export function isPlugin(value: object): value is Plugin {
  return loaded.has(value)
}

const loaded = new WeakSet<object>()

/** Whether each call needs a new instance, whatever the route says: only its program can be called. */
function isOnlyProgram({ bytes }: SourceModule): boolean {
  return callableExports({ functions: exportedFunctions(bytes) }).join() === START
}

/** Compiled modules by digest, limit and form, for as long as something uses them. */
const compiled = new WeakValues<WebAssembly.Module>()

/** How many compiled modules are remembered. One that nothing uses is forgotten once V8 has collected it. */
export function rememberedModules(): number {
  return compiled.size
}

async function compileOnce(
  source: SourceModule,
  memoryMax: number,
  isFresh: (module: SourceModule) => boolean,
  plugin: string,
): Promise<SourceModule & LinkedModule> {
  const key = `${source.digest}:${memoryMax}`
  const name = source.name === 'main' ? plugin : `${plugin} (module "${source.name}")`
  const capped = cap(source.bytes, memoryMax, name)
  const module = await compile(key, capped, name)
  const renewable = isFresh(source) ? await renewableOf(module, capped, name) : undefined
  const [imports, exports] = [moduleImports(source.bytes), moduleExports(source.bytes)]
  return { ...source, module, imports, exports, ...(renewable && { renewable }) }
}

/** The renewable forms of compiled modules: a large one takes tenths of a second, and each route asks for its own. */
const renewables = new WeakMap<WebAssembly.Module, Promise<RenewableModule | undefined>>()

function renewableOf(
  module: WebAssembly.Module,
  capped: Uint8Array,
  name: string,
): Promise<RenewableModule | undefined> {
  const known = renewables.get(module)
  if (known) return known
  const renewable = compileRenewable(capped, name)
  renewables.set(module, renewable)
  return renewable
}

/** In the best form that V8 accepts: a longer one may be beyond its limits. */
async function compileRenewable(capped: Uint8Array, name: string): Promise<RenewableModule | undefined> {
  for (const tracks of [true, false]) {
    const form = makeRenewable(capped, name, tracks)
    if (!form) continue
    const { bytes, ...rest } = form
    const module = await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>).catch(() => undefined)
    if (module) return { module, ...rest }
  }
  return undefined
}

function cap(bytes: Uint8Array, memoryMax: number, name: string): Uint8Array {
  const notAModule = whyNotAModule(bytes)
  if (notAModule) throw new PluginInvalidError(name, notAModule)
  return capMemory(bytes, memoryMax, name)
}

async function compile(key: string, bytes: Uint8Array, name: string): Promise<WebAssembly.Module> {
  const known = compiled.get(key)
  if (known) return known
  try {
    const module = await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>)
    compiled.set(key, module)
    return module
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '')
    const hint =
      !WebAssembly.validate(TABLE_WITH_VALUE) && hasTableValue(bytes, name)
        ? '; it has a table with an initial value (WebAssembly 3.0), which needs Node.js 22 or later'
        : ''
    throw new PluginInvalidError(name, `it is not a valid module: ${reason}${hint}`, { cause: error })
  }
}

/** The least module with a table that has an initial value. */
const TABLE_WITH_VALUE = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 4, 9, 1, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b],
)
