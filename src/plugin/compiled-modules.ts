import { PluginInvalidError } from '../errors/errors.ts'
import { isOnlyProgram } from '../module/entry-points.ts'
import { TypeBudget } from '../module/limits.ts'
import type { Log } from '../observe/log/guest-log.ts'
import { unlessAborted } from '../platform/async-work.ts'
import {
  type Admit,
  type LoadedModule,
  loadModule,
  type ModuleFacts,
  type ModuleJob,
  type RenewableModule,
} from './load-module.ts'
import type { LoadSurroundings } from './load-threads.ts'
import type { SourceModule } from './source/source.ts'

/** A module that was loaded. */
export interface CompiledModule {
  readonly module: WebAssembly.Module
  /** The form whose instances have few exports; undefined if that is the module itself. */
  readonly onDemand?: WebAssembly.Module | undefined
  readonly facts: ModuleFacts
  /** Why its instances need a process of their own; undefined if they do not. */
  readonly needsProcess: string | undefined
  /** None unless it was asked for, and can be had. */
  readonly renewable?: RenewableModule
}

/** Where a module is loaded, and until when. */
export interface LoadPlace {
  /**
   * Whether something is served meanwhile: then all is done in a thread. Default: only modules of more than 256 KiB are
   * loaded in one.
   */
  readonly isServing?: boolean | undefined
  /** Ends the loading, which throws its reason. */
  readonly signal?: AbortSignal | undefined
  /** Told of a thread that cannot be ended. Default: nobody. */
  readonly log?: Log | undefined
}

/** To load so many bytes takes some 20 ms on the event loop, and to start a thread more than that. */
const LARGE_BYTES = 262_144

/** A map that holds no value: an entry goes, with its key, when its value was collected. */
class WeakValues<Value extends WeakKey> {
  readonly #entries = new Map<string, WeakRef<Value>>()
  readonly #collected = new FinalizationRegistry<string>((key) => {
    // Another value may have taken its place meanwhile.
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

/** Work that several wait for. It is ended when nobody waits for it any more. */
class SharedWork<Result> {
  readonly #ended = new AbortController()
  readonly #result: Promise<Result>
  #waiting = 0

  /** @param begin - Is told by its signal that nobody wants the result. */
  constructor(begin: (signal: AbortSignal) => Promise<Result>) {
    this.#result = begin(this.#ended.signal)
    this.#result.catch(() => undefined) // those who wait are told
  }

  /** Whether nobody waits for it any more: it was ended. */
  get isGivenUp(): boolean {
    return this.#ended.signal.aborted
  }

  /** @throws what the work throws, and the reason of the signal. */
  async wait(signal?: AbortSignal): Promise<Result> {
    this.#waiting++
    try {
      return await unlessAborted(this.#result, signal)
    } finally {
      if (--this.#waiting === 0) this.#ended.abort()
    }
  }
}

/** Compiled modules by digest and limits, for as long as something uses them. */
const compiled = new WeakValues<WebAssembly.Module>()

/** What is known of them. To make the form that can be put back takes tenths of a second, and each route asks for it. */
const knownModules = new WeakMap<WebAssembly.Module, Known>()

interface Known {
  readonly onDemand?: WebAssembly.Module | undefined
  readonly facts: ModuleFacts
  readonly needsProcess: string | undefined
  readonly isRenewableKnown: boolean
  readonly renewable: RenewableModule | undefined
}

/** Of all modules that this process has compiled. */
const typeBudget = new TypeBudget()

/** Those that are being loaded, by the same. */
const loading = new Map<string, Loading>()

interface Loading {
  /** For whom it was begun: its messages name him. */
  readonly name: string
  readonly work: SharedWork<WebAssembly.Module>
}

/** How many compiled modules are remembered. One that nothing uses is forgotten once V8 has collected it. */
export function rememberedModules(): number {
  return compiled.size
}

/**
 * Loads a module, unless it was loaded before. Who asks for the same meanwhile waits for the same work.
 *
 * @throws {@link PluginInvalidError}, and the reason of the signal.
 */
export async function loadOnce(
  source: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule'>,
  place: LoadPlace = {},
): Promise<CompiledModule> {
  const { name, renewable, ...limits } = wanted
  const key = JSON.stringify([source.digest, limits])
  for (;;) {
    const found = sufficientForm(compiled.get(key), renewable)
    if (found) return found
    const others = loading.get(key)
    const { work, name: begunFor } =
      others && !others.work.isGivenUp ? others : begin(key, source, wanted, place)
    try {
      const module = await work.wait(place.signal)
      const loaded = sufficientForm(module, renewable) // others may have wanted less
      if (loaded) return loaded
    } catch (error) {
      if (!(error instanceof PluginInvalidError) || begunFor === name) throw error
    }
  }
}

function sufficientForm(
  module: WebAssembly.Module | undefined,
  wanted: ModuleJob['renewable'],
): CompiledModule | undefined {
  const knownOf = module && knownModules.get(module)
  if (!knownOf) return undefined
  const { facts, needsProcess, onDemand, renewable, isRenewableKnown } = knownOf
  const isWanted = wanted === 'yes' || (wanted === 'program' && isOnlyProgram(facts))
  if (isWanted && !isRenewableKnown) return undefined
  return {
    module,
    facts,
    needsProcess,
    ...(onDemand && { onDemand }),
    ...(isWanted && renewable && { renewable }),
  }
}

function begin(
  key: string,
  { bytes, digest }: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule'>,
  { isServing = false, log }: LoadPlace,
): Loading {
  const admit: Admit = (types) => typeBudget.take(types, digest, wanted.name)
  const work = new SharedWork(async (signal) => {
    try {
      const before = compiled.get(key)
      const job = { ...wanted, needsModule: !before }
      const { module = before, ...rest } = await loadNow(bytes, job, isServing, {
        admit,
        digest,
        signal,
        log,
      })
      if (!module) throw new Error('a module was neither known nor made')
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
 * Reads and checks a module as {@link loadOnce} does, and compiles nothing of it: for a process of its own.
 *
 * @throws as {@link loadOnce}
 */
export async function prepareOnly(
  { bytes, digest }: SourceModule,
  wanted: Omit<ModuleJob, 'needsModule' | 'staysBytes'>,
  { isServing = false, signal, log }: LoadPlace = {},
): Promise<CheckedModule> {
  const job = { ...wanted, needsModule: false, staysBytes: true }
  const {
    bytes: prepared = bytes,
    facts,
    needsProcess,
  } = await loadNow(bytes, job, isServing, { digest, signal, log })
  return { bytes: prepared, facts, needsProcess }
}

/** A module that was checked and capped, for an engine elsewhere. */
export interface CheckedModule {
  readonly bytes: Uint8Array
  readonly facts: ModuleFacts
  /** Why its instances need a process of their own; undefined if they do not. */
  readonly needsProcess: string | undefined
}

/** Small ones here, as long as nothing is served. */
async function loadNow(
  bytes: Uint8Array,
  job: ModuleJob,
  isServing: boolean,
  surroundings: LoadSurroundings,
): Promise<LoadedModule> {
  const isHere = !isServing && bytes.length <= LARGE_BYTES
  return isHere ? loadModule(bytes, job, surroundings.admit) : loadElsewhere(bytes, job, surroundings)
}

/** Loaded by those who need a thread. Where none is allowed, it is done here. */
async function loadElsewhere(
  bytes: Uint8Array,
  job: ModuleJob,
  surroundings: LoadSurroundings,
): Promise<LoadedModule> {
  const { loadInThread } = await import('./load-threads.ts')
  try {
    return await loadInThread(bytes, job, surroundings)
  } catch (error) {
    if (!isDenied(error)) throw error
    return loadModule(bytes, job, surroundings.admit)
  }
}

/** By Node's permission model. */
function isDenied(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_ACCESS_DENIED'
}
