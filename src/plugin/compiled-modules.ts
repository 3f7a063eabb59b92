import { PluginInvalidError } from '../errors/errors.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import { TypeBudget } from '../module/limits.ts'
import type { MergeResult } from '../module/merge.ts'
import type { Log } from '../observe/log/guest-log.ts'
import { unlessAborted } from '../platform/event-loop.ts'
import type { Admit, LoadedModule, ModuleJob, ResettableModule } from './load-module.ts'
import type { LoadingContext } from './load-threads.ts'
import { cachedModuleFile, cacheModule, loadCachedModule } from './module-cache.ts'
import type { ModuleFacts } from './module-facts.ts'
import type { SourceModule } from './source/source.ts'

/** A module that was loaded. */
interface CompiledModule {
  readonly module: WebAssembly.Module
  /** The variant whose instances have few exports; undefined if that is the module itself. */
  readonly fewExports?: WebAssembly.Module | undefined
  readonly facts: ModuleFacts
  /** The feature for which its instances need a separate process; undefined if there is none. */
  readonly needsProcess: string | undefined
  /** undefined unless it was requested and is possible. */
  readonly resettable?: ResettableModule
  /** Whether the kernel is merged into its forms; undefined if that was not requested. */
  readonly merge?: MergeResult | undefined
}

/** Where a module is loaded, and the signal that aborts it. */
export interface LoadContext {
  /**
   * Whether requests are served meanwhile: then all loading is done in a thread. Default: only for modules of more than 256
   * KiB.
   */
  readonly isServing?: boolean | undefined
  /** Aborts the loading, which throws its reason. */
  readonly signal?: AbortSignal | undefined
  /** Logs a thread that cannot be terminated. Default: no log. */
  readonly log?: Log | undefined
  /** Folder of the caches, where checked modules are kept for the next start. Default: they are not kept. */
  readonly cacheFolder?: string | undefined
}

/** What was kept of this many bytes, with at most some thousand exports, blocks the event loop for some ms at most. */
const SMALL_BYTES = 65_536

/** Loading this many bytes takes some 20 ms on the event loop, less than starting a thread. */
const LARGE_BYTES = 262_144

/** A map of weak values: an entry is removed when its value was collected. */
class WeakValues<Value extends WeakKey> {
  readonly #entries = new Map<string, WeakRef<Value>>()
  readonly #collected = new FinalizationRegistry<string>((key) => {
    // The key may have a newer value.
    if (this.#entries.get(key)?.deref() === undefined) this.#entries.delete(key)
  })

  get size(): number {
    return this.#entries.size
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)?.deref()
  }

  set(key: string, value: Value): void {
    this.#entries.set(key, new WeakRef(value))
    this.#collected.register(value, key)
  }
}

/** Work shared by several callers. It is aborted when the last caller gives up. */
class SharedWork<Result> {
  readonly #ended = new AbortController()
  readonly #result: Promise<Result>
  #waiting = 0

  /** @param begin - Its signal is aborted when no caller wants the result. */
  constructor(begin: (signal: AbortSignal) => Promise<Result>) {
    this.#result = begin(this.#ended.signal)
    this.#result.catch(() => undefined) // callers get the rejection
  }

  /** Whether it was aborted because no caller waits for it. */
  get isAbandoned(): boolean {
    return this.#ended.signal.aborted
  }

  /** @throws the error of the work, and the reason of the signal. */
  async wait(signal?: AbortSignal): Promise<Result> {
    this.#waiting++
    try {
      return await unlessAborted(this.#result, signal)
    } finally {
      if (--this.#waiting === 0) this.#ended.abort()
    }
  }
}

/** Compiled modules by digest and limits, as long as they are in use. */
const compiled = new WeakValues<WebAssembly.Module>()

/** Cached results: creating the resettable variant takes tenths of a second, and each route needs it. */
const knownModules = new WeakMap<WebAssembly.Module, KnownModule>()

interface KnownModule {
  readonly fewExports?: WebAssembly.Module | undefined
  readonly facts: ModuleFacts
  readonly needsProcess: string | undefined
  readonly isResettableKnown: boolean
  readonly resettable: ResettableModule | undefined
  readonly merge?: MergeResult | undefined
}

/** The types of all modules that this process has compiled. */
const typeBudget = new TypeBudget()

/** Modules being loaded, by the same key. */
const loading = new Map<string, Loading>()

interface Loading {
  /** The first requester, which is named in messages. */
  readonly name: string
  readonly work: SharedWork<WebAssembly.Module>
}

/** The number of cached modules. Unused ones are forgotten when V8 has collected them. */
export function cachedModuleCount(): number {
  return compiled.size
}

/**
 * Loads a module, unless it is already loaded. Concurrent requests for the same module share the work.
 *
 * @throws {@link PluginInvalidError}, and the reason of the signal.
 */
export async function loadOnce(
  source: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule'>,
  place: LoadContext = {},
): Promise<CompiledModule> {
  const { name, resettable, ...limits } = wanted
  const key = JSON.stringify([source.digest, limits])
  for (;;) {
    const found = sufficientForm(compiled.get(key), resettable)
    if (found) return found
    const others = loading.get(key)
    const { work, name: begunFor } =
      others && !others.work.isAbandoned ? others : begin(key, source, wanted, place)
    try {
      const module = await work.wait(place.signal)
      const loaded = sufficientForm(module, resettable) // an earlier request may have needed less
      if (loaded) return loaded
    } catch (error) {
      if (!(error instanceof PluginInvalidError) || begunFor === name) throw error
    }
  }
}

function sufficientForm(
  module: WebAssembly.Module | undefined,
  wanted: ModuleJob['resettable'],
): CompiledModule | undefined {
  const knownOf = module && knownModules.get(module)
  if (!knownOf) return undefined
  const { facts, needsProcess, fewExports, resettable, isResettableKnown, merge } = knownOf
  const isWanted = wanted === 'yes' || (wanted === 'program' && isOnlyProgram(facts))
  if (isWanted && !isResettableKnown) return undefined
  return {
    module,
    facts,
    needsProcess,
    ...(fewExports && { fewExports }),
    ...(merge && { merge }),
    ...(isWanted && resettable && { resettable }),
  }
}

function begin(
  key: string,
  { bytes, digest }: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule'>,
  { isServing = false, log, cacheFolder }: LoadContext,
): Loading {
  const moduleCacheOf =
    cacheFolder === undefined ? undefined : cachedModuleFile(cacheFolder, digest, bytes.length, wanted)
  const admit: Admit = (types) => typeBudget.take(types, digest, wanted.name)
  const work = new SharedWork(async (signal) => {
    try {
      const before = compiled.get(key)
      const job = { ...wanted, needsModule: !before, moduleCacheOf }
      const {
        module = before,
        checked: _checked,
        ...rest
      } = await loadNow(bytes, job, isServing, {
        admit,
        digest,
        signal,
        log,
      })
      if (!module) throw new Error('a module was neither cached nor compiled')
      if (module !== before) compiled.set(key, module)
      knownModules.set(module, { ...(before && knownModules.get(before)), ...rest })
      return module
    } finally {
      if (loading.get(key) === begun) loading.delete(key)
    }
  })
  const begun = { name: wanted.name, work }
  loading.set(key, begun)
  return begun
}

/**
 * Reads and validates a module like {@link loadOnce} without compiling it: for a separate process.
 *
 * @throws the errors of {@link loadOnce}
 */
export async function prepareOnly(
  { bytes, digest }: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule' | 'staysBytes'>,
  { isServing = false, signal, log }: LoadContext = {},
): Promise<CheckedModule> {
  const job = { ...wanted, needsModule: false, staysBytes: true }
  const {
    bytes: prepared = bytes,
    facts,
    needsProcess,
  } = await loadNow(bytes, job, isServing, { digest, signal, log })
  return { bytes: prepared, facts, needsProcess }
}

/** A validated and capped module, for an engine elsewhere. */
interface CheckedModule {
  readonly bytes: Uint8Array
  readonly facts: ModuleFacts
  /** The feature for which its instances need a separate process; undefined if there is none. */
  readonly needsProcess: string | undefined
}

/** What was kept, and small modules while no requests are served, are loaded here. */
async function loadNow(
  bytes: Uint8Array,
  job: ModuleJob,
  isServing: boolean,
  context: LoadingContext,
): Promise<LoadedModule> {
  const isKeptHere = !isServing || bytes.length <= SMALL_BYTES
  const kept =
    isKeptHere && job.moduleCacheOf && job.needsModule
      ? await loadCachedModule(job.moduleCacheOf, isServing, context.admit)
      : undefined
  if (kept) return kept
  const isHere = !isServing && bytes.length <= LARGE_BYTES
  return isHere ? loadHere(bytes, job, context.admit) : loadElsewhere(bytes, job, context)
}

/** Imports `load-module.ts` on demand: a start with kept modules does not need it. */
async function loadHere(bytes: Uint8Array, job: ModuleJob, admit: Admit | undefined): Promise<LoadedModule> {
  const { loadModule } = await import('./load-module.ts')
  const loaded = await loadModule(bytes, job, admit)
  if (job.moduleCacheOf !== undefined) void cacheModule(job.moduleCacheOf, loaded)
  return loaded
}

/** Loaded on demand. If threads are not permitted, the module is loaded here. */
async function loadElsewhere(
  bytes: Uint8Array,
  job: ModuleJob,
  context: LoadingContext,
): Promise<LoadedModule> {
  const { loadInThread } = await import('./load-threads.ts')
  try {
    return await loadInThread(bytes, job, context)
  } catch (error) {
    if (!isDenied(error)) throw error
    return loadHere(bytes, job, context.admit)
  }
}

/** Denied by Node's permission model. */
function isDenied(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_ACCESS_DENIED'
}
